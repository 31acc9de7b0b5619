package conf

import (
	"fmt"
	"strconv"
	"strings"
)

// Slots is the number of hash slots of a database. It can never change (rule K3).
const Slots = 16384

// noSlots is how a shard that owns no slot says so, as one that holds only
// single tables.
const noSlots = "none"

// SlotRange is the slots First to Last, both included.
type SlotRange struct{ First, Last int }

func (r SlotRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ParseSlots reads a shard's slots: "0-4095", "7", "0-99,200-299", or "none" for
// no range at all. The error says what is wrong with the text.
func ParseSlots(text string) ([]SlotRange, error) {
	if strings.TrimSpace(text) == noSlots {
		return nil, nil
	}
	var ranges []SlotRange
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(strings.TrimSpace(first), 10, 31)
		b, errB := strconv.ParseUint(strings.TrimSpace(last), 10, 31)
		switch {
		case errA != nil || errB != nil:
			return nil, fmt.Errorf("%q is not a slot or a range of slots", strings.TrimSpace(part))
		case a > b:
			return nil, fmt.Errorf("the range %d-%d runs backwards", a, b)
		case b >= Slots:
			return nil, fmt.Errorf("slot %d does not exist, the last one is %d", b, Slots-1)
		}
		ranges = append(ranges, SlotRange{int(a), int(b)})
	}
	return ranges, nil
}

// SlotOwners maps each of the 16384 slots to the shard that owns it, an index
// into Shards. It is for a valid database, defaults filled in; the error is for
// any other.
func (d *Database) SlotOwners() ([]uint16, error) {
	owner, problems := d.slotOwners(place{}.key("databases").item(0, d.Name))
	if err := problems.err(); err != nil {
		return nil, err
	}
	owners := make([]uint16, Slots)
	for slot, shard := range owner {
		owners[slot] = uint16(shard)
	}
	return owners, nil
}

// slotOwners is the owner of each slot, -1 for none, and what is wrong with them.
func (d *Database) slotOwners(at place) ([]int, Problems) {
	var k checker
	owner := make([]int, Slots)
	for i := range owner {
		owner[i] = -1
	}
	readable := true
	for i, s := range d.Shards {
		here := at.key("shards").item(i, s.Name).key("slots")
		if s.Slots == "" {
			readable = false
			k.add(here, "is missing while other shards of the database name theirs",
				`name the slots of every shard ("none" for a shard without), or of none to spread them evenly`)
			continue
		}
		ranges, err := ParseSlots(s.Slots)
		if err != nil {
			readable = false
			k.add(here, err.Error(), `write slots as "0-4095" or "0-99,200-299"`)
			continue
		}
		d.claim(&k, here, owner, i, ranges)
	}
	if free := freeSlots(owner); readable && len(free) > 0 {
		k.add(at.key("shards"), fmt.Sprintf("slots %s belong to no shard", joinRanges(free)),
			fmt.Sprintf("give each of the slots 0-%d to one shard", Slots-1))
	}
	return owner, k.problems
}

// claim gives the ranges to the shard and reports those that another has.
func (d *Database) claim(k *checker, at place, owner []int, shard int, ranges []SlotRange) {
	taken := map[int][]SlotRange{}
	for _, r := range ranges {
		for slot := r.First; slot <= r.Last; slot++ {
			if by := owner[slot]; by >= 0 {
				taken[by] = appendSlot(taken[by], slot)
				continue
			}
			owner[slot] = shard
		}
	}
	for by := range d.Shards {
		if len(taken[by]) == 0 {
			continue
		}
		what := fmt.Sprintf("slots %s belong to shard %q already", joinRanges(taken[by]), d.Shards[by].Name)
		if by == shard {
			what = fmt.Sprintf("slots %s stand here twice", joinRanges(taken[by]))
		}
		k.add(at, what, "give each slot to one shard")
	}
}

// fillSlots spreads the slots evenly over the shards, in their order, when no
// shard names any.
func (d *Database) fillSlots() {
	n := len(d.Shards)
	if n == 0 || n > Slots {
		return
	}
	for _, s := range d.Shards {
		if s.Slots != "" {
			return
		}
	}
	for i := range d.Shards {
		d.Shards[i].Slots = SlotRange{i * Slots / n, (i+1)*Slots/n - 1}.String()
	}
}

func freeSlots(owner []int) []SlotRange {
	var free []SlotRange
	for slot, by := range owner {
		if by < 0 {
			free = appendSlot(free, slot)
		}
	}
	return free
}

// appendSlot adds a slot to ranges in ascending order.
func appendSlot(ranges []SlotRange, slot int) []SlotRange {
	if n := len(ranges); n > 0 && ranges[n-1].Last == slot-1 {
		ranges[n-1].Last = slot
		return ranges
	}
	return append(ranges, SlotRange{slot, slot})
}

func joinRanges(ranges []SlotRange) string {
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}
