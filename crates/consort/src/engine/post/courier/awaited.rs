//! Messages that are waited for, in the order in which they were asked for.

use std::collections::{BTreeMap, VecDeque};

use crate::delivery::Delivery;

/// Deliveries that wait for their messages to come.
#[derive(Debug)]
pub(super) struct Awaited {
    /// How many there were.
    made: u64,
    /// By sender, with one more place for those that may be anybody's; then by tag.
    lists: Vec<BTreeMap<u32, VecDeque<Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    delivery: Delivery,
}

/// Whose messages are waited for; `None` for anybody's.
pub(super) type Sender = Option<usize>;

impl Awaited {
    pub(super) fn new(world: usize) -> Self {
        Self { made: 0, lists: (0..=world).map(|_| BTreeMap::new()).collect() }
    }

    pub(super) fn add(&mut self, from: Sender, tag: u32, delivery: Delivery) {
        let (number, place) = (self.made, self.place(from));
        self.made += 1;
        self.lists[place].entry(tag).or_default().push_back(Waiting { number, delivery });
    }

    /// The first one that a message with this sender and tag can be for, and what was said of its
    /// sender.
    pub(super) fn take(&mut self, from: usize, tag: u32) -> Option<(Sender, Delivery)> {
        let first = |from| Some((self.list(from).get(&tag)?.front()?.number, from));
        let (_, from) = [first(Some(from)), first(None)].into_iter().flatten().min()?;
        let place = self.place(from);
        let waiting = self.lists[place].get_mut(&tag)?.pop_front()?;
        self.tidy(place, tag);
        Some((from, waiting.delivery))
    }

    /// The first one that a message from this sender can be for, with its tag.
    pub(super) fn take_first(&mut self, from: usize) -> Option<(u32, Sender, Delivery)> {
        let lists = [Some(from), None].map(|from| self.list(from));
        let firsts = lists.into_iter().flatten().filter_map(|(&tag, list)| {
            let first = list.front()?;
            Some((first.number, tag))
        });
        let (_, tag) = firsts.min()?;
        let (sender, delivery) = self.take(from, tag)?;
        Some((tag, sender, delivery))
    }

    /// Takes out those that are not wanted any more, with their tags.
    pub(super) fn remove(
        &mut self,
        from: Sender,
        is_unwanted: impl Fn(&Delivery) -> bool,
    ) -> Vec<(u32, Delivery)> {
        let mut removed = Vec::new();
        let place = self.place(from);
        self.lists[place].retain(|&tag, list| {
            if list.iter().any(|it| is_unwanted(&it.delivery)) {
                let all = std::mem::take(list).into_iter();
                let (gone, rest): (Vec<_>, _) = all.partition(|it| is_unwanted(&it.delivery));
                removed.extend(gone.into_iter().map(|it| (tag, it.delivery)));
                *list = rest.into();
            }
            !list.is_empty()
        });
        removed
    }

    /// Whether a message of this sender is waited for, by those who said so.
    pub(super) fn is_awaited(&self, from: Sender) -> bool {
        !self.list(from).is_empty()
    }

    /// The one of this sender that has been waited for longest, by those who said so.
    pub(super) fn oldest(&self, from: Sender) -> Option<&Delivery> {
        let all = self.list(from).values().flatten();
        all.min_by_key(|waiting| waiting.number).map(|waiting| &waiting.delivery)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.iter().all(BTreeMap::is_empty)
    }

    fn list(&self, from: Sender) -> &BTreeMap<u32, VecDeque<Waiting>> {
        &self.lists[self.place(from)]
    }

    fn place(&self, from: Sender) -> usize {
        from.unwrap_or(self.lists.len() - 1)
    }

    fn tidy(&mut self, place: usize, tag: u32) {
        if self.lists[place].get(&tag).is_some_and(VecDeque::is_empty) {
            self.lists[place].remove(&tag);
        }
    }
}
