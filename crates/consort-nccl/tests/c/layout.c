/* Says how things are laid out, for tests that compare it: with what the library believes, and with NVIDIA's headers. */
#include <stdio.h>

#include <nccl.h>

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
/* Also what the initializer puts there. */
#define INITIAL(type, field)                                                  \
  printf("%s.%s %zu %lld\n", #type, #field, offsetof(type, field), (long long)type##_initial.field)

static const ncclConfig_t ncclConfig_t_initial = NCCL_CONFIG_INITIALIZER;
static const ncclSimInfo_t ncclSimInfo_t_initial = NCCL_SIM_INFO_INITIALIZER;

int main(void) {
  SIZE(ncclUniqueId);
  SIZE(ncclConfig_t);
  SIZE(ncclSimInfo_t);
  SIZE(ncclWaitSignalDesc_t);
  SIZE(ncclTeam_t);
  SIZE(ncclMultimemHandle_t);
  SIZE(ncclResult_t);
  SIZE(ncclRedOp_t);
  SIZE(ncclDataType_t);
  SIZE(ncclScalarResidence_t);
  SIZE(ncclCommMemStat_t);
  INITIAL(ncclConfig_t, size);
  INITIAL(ncclConfig_t, magic);
  INITIAL(ncclConfig_t, version);
  INITIAL(ncclConfig_t, blocking);
  INITIAL(ncclConfig_t, cgaClusterSize);
  INITIAL(ncclConfig_t, minCTAs);
  INITIAL(ncclConfig_t, maxCTAs);
  INITIAL(ncclConfig_t, netName);
  INITIAL(ncclConfig_t, splitShare);
  INITIAL(ncclConfig_t, trafficClass);
  INITIAL(ncclConfig_t, commName);
  INITIAL(ncclConfig_t, collnetEnable);
  INITIAL(ncclConfig_t, CTAPolicy);
  INITIAL(ncclConfig_t, shrinkShare);
  INITIAL(ncclConfig_t, nvlsCTAs);
  INITIAL(ncclConfig_t, nChannelsPerNetPeer);
  INITIAL(ncclConfig_t, nvlinkCentricSched);
  INITIAL(ncclConfig_t, graphUsageMode);
  INITIAL(ncclConfig_t, numRmaCtx);
  INITIAL(ncclConfig_t, maxP2pPeers);
  INITIAL(ncclConfig_t, graphStreamOrdering);
  INITIAL(ncclSimInfo_t, size);
  INITIAL(ncclSimInfo_t, magic);
  INITIAL(ncclSimInfo_t, version);
  INITIAL(ncclSimInfo_t, estimatedTime);
  FIELD(ncclWaitSignalDesc_t, opCnt);
  FIELD(ncclWaitSignalDesc_t, peer);
  FIELD(ncclWaitSignalDesc_t, sigIdx);
  FIELD(ncclWaitSignalDesc_t, ctx);
  FIELD(ncclTeam_t, nRanks);
  FIELD(ncclTeam_t, rank);
  FIELD(ncclTeam_t, stride);
  return 0;
}
