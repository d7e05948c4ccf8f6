package events

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is the kind of lock that a contender's name belongs to. The zero value is no
// contender.
type Kind uint8

// The eight forms of names found in lock directories. %010d is the number that the server
// appends; a negative one is wider.
const (
	// KindLock is `lock-%010d`: ours, Curator's mutex, go-zookeeper's Lock, the recipe.
	KindLock Kind = iota + 1
	// KindKazooLock is `__lock__%010d`: kazoo's Lock and WriteLock.
	KindKazooLock
	// KindKazooRead is `__rlock__%010d`: kazoo's ReadLock.
	KindKazooRead
	// KindRead is `__READ__%010d`: the read side of ours and Curator's read/write lock.
	KindRead
	// KindWrite is `__WRIT__%010d`: the write side of the same.
	KindWrite
	// KindRecipeRead is `read-%010d`: the read side of ZooKeeper's recipe.
	KindRecipeRead
	// KindRecipeWrite is `write-%010d`: the write side of ZooKeeper's recipe.
	KindRecipeWrite
	// KindWriteLock is `x-<session>-%010d`: ZooKeeper's own WriteLock.
	KindWriteLock

	// KindUnfair is the one node of an unfair lock. It has no form of name: the node is
	// at the lock's own path, not in a directory, and may have any name. So [ParseName]
	// never returns it.
	KindUnfair
)

// forms has, for each kind, its name and the marker that comes right before the number.
// No marker ends with another one, so their order does not matter.
//
//nolint:gochecknoglobals // a constant table
var forms = [...]struct{ marker, name string }{
	KindLock:        {"lock-", "lock"},
	KindKazooLock:   {"__lock__", "kazoo lock"},
	KindKazooRead:   {"__rlock__", "kazoo read lock"},
	KindRead:        {"__READ__", "read lock"},
	KindWrite:       {"__WRIT__", "write lock"},
	KindRecipeRead:  {"read-", "recipe read lock"},
	KindRecipeWrite: {"write-", "recipe write lock"},
	KindWriteLock:   {"", "WriteLock"},
	KindUnfair:      {"", "unfair lock"},
}

// String returns the name of the kind, such as "read lock".
func (k Kind) String() string {
	if k > 0 && int(k) < len(forms) {
		return forms[k].name
	}
	return "kind " + strconv.Itoa(int(k))
}

// Marker returns the text right before the number in names of the kind. It is empty for
// [KindWriteLock], whose names have a session there, and for [KindUnfair].
func (k Kind) Marker() string {
	if int(k) < len(forms) {
		return forms[k].marker
	}
	return ""
}

// Reads reports whether contenders of the kind share the lock with each other.
func (k Kind) Reads() bool { return k == KindRead || k == KindKazooRead || k == KindRecipeRead }

// Kazoo reports whether contenders of the kind have kazoo's names.
func (k Kind) Kazoo() bool { return k == KindKazooLock || k == KindKazooRead }

// Name is the parsed name of a contender.
type Name struct {
	Text   string // the whole name, the last component of the node's path
	Kind   Kind
	Member int32 // of a multi-lock: in which of its directories the node is
	Seq    int64 // the number that the server appended
}

// Same reports whether both names belong to the same node of a lock. A request identifies
// a node by its text and its member.
func (n Name) Same(other Name) bool { return n.Text == other.Text && n.Member == other.Member }

// SeqEnd is the first sequence number that is refused. The servers' counter has 32 bits.
// At its end, real servers assign one number several times, or negative numbers, which
// sort before the holder. SeqEnd leaves a margin of 2^20 creates before that.
const SeqEnd = 1<<31 - 1<<20

// SeqLate is the first sequence number at which a directory is renewed, if it is empty
// then.
const SeqLate = SeqEnd - 1<<20

// Late reports whether the number at the end of a node's name or path is at least
// [SeqLate], so that the node's directory must be renewed.
func Late(node string) bool {
	const digits = 10
	if len(node) < digits {
		return false
	}
	seq, err := strconv.ParseInt(node[len(node)-digits:], 10, 64)
	return err == nil && (seq >= SeqLate || seq < 0)
}

// ErrSequenceEnd reports that a directory no longer orders its contenders: its sequence
// numbers are used up, or two contenders have the same one. A directory that this library
// created is renewed, so retry. If another library created it, or we may not delete from
// its parent, delete the directory while no process uses it.
var ErrSequenceEnd = errors.New("zkgrant: the sequence numbers of the lock directory are used up or not unique")

// ParseName parses the name of a child of a lock directory. It returns false for a name
// that does not end in one of the eight forms; such a child is not a contender. Any text
// may precede the form, unless it turns it into another word: `thread-1234567890` is not
// a contender. A number outside the usable range is parsed, too: see [Name.Check].
func ParseName(text string) (Name, bool) {
	if text == "" || text[len(text)-1] < '0' || text[len(text)-1] > '9' {
		return Name{}, false // most names of other nodes, without an allocation
	}
	// The server appends "%010d": ten digits, or a minus sign and nine or ten.
	for _, width := range [...]int{10, 9} {
		if len(text) < width {
			continue
		}
		head := text[:len(text)-width]
		seq, err := strconv.ParseUint(text[len(head):], 10, 63)
		if err != nil {
			continue // a sign among the digits is an error, too
		}
		// `lock--000000005` is a marker and a negative number; the minus sign of
		// `lock-0000000005` belongs to the marker.
		if head, ok := strings.CutSuffix(head, "-"); ok && seq > 0 {
			if kind := kindOf(head); kind != 0 {
				return Name{Text: text, Kind: kind, Seq: -int64(seq)}, true
			}
		}
		if kind := kindOf(head); kind != 0 && width == 10 {
			return Name{Text: text, Kind: kind, Seq: int64(seq)}, true
		}
	}
	return Name{}, false
}

// kindOf returns the kind of a contender, given the text before the number, or 0 if it is
// not a contender.
func kindOf(head string) Kind {
	for kind, f := range forms {
		before, ok := strings.CutSuffix(head, f.marker)
		if !ok || f.marker == "" {
			continue
		}
		// A letter or digit right before `lock-` makes it part of another word.
		last, _ := utf8.DecodeLastRuneInString(before)
		if f.marker[0] == '_' || !unicode.IsLetter(last) && !unicode.IsDigit(last) {
			return Kind(kind)
		}
	}
	if session, ok := strings.CutSuffix(head, "-"); ok && isWriteLockSession(session) {
		return KindWriteLock
	}
	return 0
}

// isWriteLockSession recognises `x-<session id in decimal, may be negative>`.
func isWriteLockSession(s string) bool {
	id, ok := strings.CutPrefix(s, "x-")
	id = strings.TrimPrefix(id, "-")
	return ok && id != "" && strings.Trim(id, "0123456789") == ""
}

// Check returns an error that wraps [ErrSequenceEnd] if the number is outside the range
// that servers assign once and in order.
func (n Name) Check() error {
	if n.Seq < 0 || n.Seq >= SeqEnd {
		return fmt.Errorf("%w: %q", ErrSequenceEnd, n.Text)
	}
	return nil
}

// CompareNames orders names by sequence number, and names with the same number by their
// text, so that sorting is deterministic.
func CompareNames(a, b Name) int {
	if c := cmp.Compare(a.Seq, b.Seq); c != 0 {
		return c
	}
	return strings.Compare(a.Text, b.Text)
}
