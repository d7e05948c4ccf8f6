package recipes

import (
	"container/list"
	"hash/fnv"
	"path"
	"time"
)

// This file is about the directories that a session has made and left empty. Servers
// remove an empty container by themselves, but at most 10,000 a minute, and never one
// that has had no child. A session that takes locks at ever fresh paths makes more than
// that.

// The pace of deletions. Each takes a read, and a delete if the directory still exists
// and is empty. Any second overlaps at most 11 ticks, so at most 990 deletions begin in
// it.
const (
	// LeftoverAfter is how long a directory is unused before it is deleted.
	LeftoverAfter = 5 * time.Second
	// leftoverTick is the length of a tick. Ticks are those of the clock, so one that
	// begins late does not delay the next.
	leftoverTick = 100 * time.Millisecond
	// leftoverBurst bounds the removals of a tick, and those that have not ended.
	leftoverBurst = 90
)

const (
	// mostLeftovers bounds the directories that are remembered. Directories beyond that
	// are left to the servers.
	mostLeftovers = 1 << 14
	// mostRemoved bounds each half of the paths that are remembered because a directory
	// was removed there.
	mostRemoved = 1 << 14
)

// Leftovers decides which directories a session deletes, and when. It knows only
// containers that a server has created for this session, each by the zxid that created
// it:
//
//   - A bare directory has had no child yet. Servers never delete it, so it is deleted
//     first. It is due when it stays bare.
//   - Another directory is due some time after the session's last contender has left it.
//   - A path at which a directory was deleted is no longer fresh. If the path comes back,
//     its next directory is left to the servers, so a path that is used now and then
//     costs no extra request. It is deleted only if it stays bare.
//
// A directory is deleted only if it is still the one that was created, and empty. Servers
// do the same, so every client of the directory has to cope with it.
//
// The zero value knows no directory. It is plain data, and every method takes the time.
type Leftovers struct {
	known map[string]*leftover // each in one of the lists
	bare  list.List            // by due
	idle  list.List            // by due
	inUse list.List            // bare ones, and those whose removal is in progress

	// Those that are not bare and in use, of which a session that holds many locks has
	// many.
	used map[string]use

	removed, removedBefore map[uint64]struct{} // the hashes of paths

	tick     time.Time // the latest one, and
	burst    int       // how many removals have begun in it
	underWay int
}

// leftover is one directory.
type leftover struct {
	Leftover

	due   time.Time
	users int // contenders of the session that are there. One that is not counted costs a look, if it stays longest
	in    *list.List
	at    *list.Element // in there
}

// use is a directory that is in use.
type use struct {
	czxid int64
	users int32 // as in a leftover; 0: another client uses it
}

// Leftover is a directory to delete.
type Leftover struct {
	Dir   string
	czxid int64 // the zxid that created it
	bare  bool  // it has had no child that the session knows of
}

// Bare reports whether servers would keep the directory forever.
func (x Leftover) Bare() bool { return x.bare }

// Empty reports whether no directory is known.
func (l *Leftovers) Empty() bool { return len(l.known)+len(l.used) == 0 }

// Made notes that a server has created the container. Its parent is then in use, if it is
// one of them.
func (l *Leftovers) Made(dir string, czxid int64, now time.Time) {
	l.Filled(path.Dir(dir))
	l.forget(dir)
	if len(l.known)+len(l.used) >= mostLeftovers {
		l.evict()
	}
	if l.known == nil {
		l.known = map[string]*leftover{}
	}
	l.move(&leftover{Leftover: Leftover{Dir: dir, czxid: czxid, bare: true}, due: now.Add(LeftoverAfter)},
		&l.bare)
}

// Entered notes that another contender of the session needs the directory.
func (l *Leftovers) Entered(dir string) {
	if u, used := l.used[dir]; used {
		u.users++
		l.used[dir] = u
		return
	}
	x := l.known[dir]
	if x == nil {
		return
	}
	if x.users++; x.bare {
		l.move(x, &l.inUse)
	} else {
		l.use(dir, x)
	}
}

// use notes that the directory is in use. The session has the string dir in any case.
func (l *Leftovers) use(dir string, x *leftover) {
	x.in.Remove(x.at)
	delete(l.known, dir)
	if l.used == nil {
		l.used = map[string]use{}
	}
	l.used[dir] = use{x.czxid, int32(x.users)}
}

// Filled notes that the directory has its first child: a contender of the session, or a
// directory that the session has created.
func (l *Leftovers) Filled(dir string) {
	if l.returned(dir) {
		l.forget(dir)
	}
	if x := l.known[dir]; x != nil && x.bare {
		x.users++ // it was not known when this one entered
		l.use(dir, x)
	}
}

// Left notes that a contender of the session has left the directory, with a node or
// without, or that a directory in it is gone.
func (l *Leftovers) Left(dir string, now time.Time) {
	if u, used := l.used[dir]; used {
		if u.users = max(0, u.users-1); u.users == 0 {
			delete(l.used, dir)
			l.await(&leftover{Leftover: Leftover{Dir: dir, czxid: u.czxid}}, now)
			return
		}
		l.used[dir] = u
		return
	}
	x := l.known[dir]
	if x == nil {
		return
	}
	if x.users = max(0, x.users-1); x.users == 0 {
		l.await(x, now)
	}
}

// await makes the directory wait until it is due.
func (l *Leftovers) await(x *leftover, now time.Time) {
	x.due = now.Add(LeftoverAfter)
	if x.bare {
		l.move(x, &l.bare)
	} else {
		l.move(x, &l.idle)
	}
}

// Next returns a directory that is due, unless enough were returned for the moment. Ended
// must follow.
func (l *Leftovers) Next(now time.Time) (_ Leftover, ok bool) {
	if tick := now.Truncate(leftoverTick); !tick.Equal(l.tick) {
		l.tick, l.burst = tick, 0
	}
	if l.burst >= leftoverBurst || l.underWay >= leftoverBurst {
		return Leftover{}, false
	}
	for _, in := range [...]*list.List{&l.bare, &l.idle} {
		if first := in.Front(); first != nil && !now.Before(first.Value.(*leftover).due) {
			x := first.Value.(*leftover)
			l.burst++
			l.underWay++
			l.move(x, &l.inUse)
			return x.Leftover, true
		}
	}
	return Leftover{}, false
}

// Bare returns up to that many bare directories, due or not. It is for the end of a
// session.
func (l *Leftovers) Bare(most int) (all []Leftover) {
	for _, in := range [...]*list.List{&l.bare, &l.inUse} {
		for e := in.Front(); e != nil && len(all) < most; e = e.Next() {
			if x := e.Value.(*leftover); x.bare {
				all = append(all, x.Leftover)
			}
		}
	}
	return all
}

// Wait returns how long it is until Next may return a directory. It returns false if that
// needs another event.
func (l *Leftovers) Wait(now time.Time) (_ time.Duration, ok bool) {
	if l.underWay >= leftoverBurst {
		return 0, false
	}
	var due time.Time
	for _, in := range [...]*list.List{&l.bare, &l.idle} {
		if first := in.Front(); first != nil && (!ok || first.Value.(*leftover).due.Before(due)) {
			due, ok = first.Value.(*leftover).due, true
		}
	}
	if next := l.tick.Add(leftoverTick); l.burst >= leftoverBurst && due.Before(next) {
		due = next
	}
	return max(0, due.Sub(now)), ok
}

// Fate is the outcome of deleting a leftover directory.
type Fate uint8

// The fates.
const (
	FateUnknown Fate = iota // no server has answered, or it has turned the request away
	FateRemoved             // the session has removed the directory
	FateGone                // there is no such directory
	FateUsed                // the directory is in use
	FateOther               // it is another directory by now, or may not be removed
)

// Judge returns whether the directory can be deleted, by its Stat at a server. A
// directory that never had a child, but to which data were written, has another use.
func (x Leftover) Judge(s LeftoverStat) (_ Fate, remove bool) {
	switch {
	case s.Czxid != x.czxid:
		return FateOther, false
	case s.Children > 0:
		return FateUsed, false
	case s.Changes == 0 && s.Version > 0:
		return FateOther, false
	default:
		return FateUnknown, true
	}
}

// LeftoverStat is a server's Stat of a directory.
type LeftoverStat struct {
	Czxid             int64
	Children, Changes int32 // Changes counts those of its children
	Version           int32 // of its data
}

// Ended notes the outcome of deleting x. The parent of a deleted directory may be left as
// well.
func (l *Leftovers) Ended(x Leftover, f Fate, now time.Time) {
	l.underWay--
	known, used := l.known[x.Dir], l.used[x.Dir]
	same := known != nil && known.czxid == x.czxid || used.czxid == x.czxid // else the session has made the next one meanwhile
	switch {
	case f == FateUnknown && same && known != nil && known.users == 0:
		l.await(known, now)
	case f == FateUsed && same && known != nil:
		l.use(x.Dir, known)
	}
	if f == FateUnknown || f == FateUsed {
		return
	}
	if f == FateRemoved {
		l.remember(x.Dir)
	}
	if same || f == FateRemoved && (known == nil || !known.bare) {
		l.forget(x.Dir)
	}
	if f != FateOther {
		l.Left(path.Dir(x.Dir), now)
	}
}

// move puts the directory at the end of one of the lists.
func (l *Leftovers) move(x *leftover, in *list.List) {
	if x.in != nil {
		x.in.Remove(x.at)
	}
	x.in, x.at = in, in.PushBack(x)
	l.known[x.Dir] = x
}

func (l *Leftovers) forget(dir string) {
	if x := l.known[dir]; x != nil {
		x.in.Remove(x.at)
		delete(l.known, dir)
	}
	delete(l.used, dir)
}

// evict forgets a directory, one that the servers will remove if there is one.
func (l *Leftovers) evict() {
	for dir := range l.used { // any one
		delete(l.used, dir)
		return
	}
	for _, in := range [...]*list.List{&l.inUse, &l.idle, &l.bare} {
		if first := in.Front(); first != nil {
			l.forget(first.Value.(*leftover).Dir)
			return
		}
	}
}

// remember notes that a directory was removed at the path.
func (l *Leftovers) remember(dir string) {
	if len(l.removed) >= mostRemoved {
		l.removed, l.removedBefore = nil, l.removed
	}
	if l.removed == nil {
		l.removed = map[uint64]struct{}{}
	}
	l.removed[hashOf(dir)] = struct{}{}
}

// returned reports whether a directory was removed at the path. If two paths have one
// hash, a directory is left to the servers.
func (l *Leftovers) returned(dir string) bool {
	h := hashOf(dir)
	_, lately := l.removed[h]
	_, before := l.removedBefore[h]
	return lately || before
}

func hashOf(dir string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return h.Sum64()
}
