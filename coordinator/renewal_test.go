package coordinator_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestADirectoryAtItsEndIsRenewed: if the directory is renewed before its end, no
// acquisition is refused; if it has reached its end, one is. Tokens keep growing.
func TestADirectoryAtItsEndIsRenewed(t *testing.T) {
	kinds := kindsOf()
	delete(kinds, "unfair")
	kinds["crashes told"] = lockKind{"crashes told", func(c *coordinator.Coordinator) handle { return detecting(c) }}
	kinds["multi-lock"] = lockKind{"multi-lock", func(c *coordinator.Coordinator) handle { return mutexes(c, lockPath, "/other") }}
	for most, next := range []int32{events.SeqLate - 2, events.SeqEnd} {
		rows := map[string]lockKind{}
		for name, lock := range kinds {
			rows[name+[...]string{", before", ", at"}[most]] = lock
		}
		forEach(t, rows, func(t *testing.T, srv *zktest.Server, lock lockKind) {
			locks := []handle{lock.of(coordtest.Connect(t, srv)), lock.of(coordtest.Connect(t, srv))}
			token, refused, node := int64(0), 0, ""
			cycle := func(l handle) {
				a := l.Acquire(t.Context())
				defer coordtest.End(a)
				grant, err := a.Wait(t.Context())
				switch {
				case errors.Is(err, coordinator.ErrSequenceEnd):
					refused++
				case err != nil:
					t.Fatal(err)
				case grant.Token <= token:
					t.Errorf("token %#x after %#x", grant.Token, token)
				default:
					token, node = grant.Token, grant.Node
				}
			}
			cycle(locks[0])
			dirs := []string{lockPath}
			if lock.name == "semaphore" {
				dirs = []string{lockPath + "/locks", lockPath + "/leases"}
			}
			for _, dir := range dirs {
				eventstest.Must(t, srv.SetSequence(dir, next))
			}
			start := time.Now()
			for range 5 {
				for _, l := range locks {
					if cycle(l); lock.name == "kazoo's names" && !srv.Exists(lockPath) {
						t.Fatalf("after %s the directory is gone, want it to be there for kazoo", node)
					}
					time.Sleep(time.Millisecond)
				}
			}
			expect(t, refused <= most && time.Since(start) <= time.Second && !events.Late(node),
				"%d of 10 were refused within %v, and the last is %s; want at most %d, and a new directory",
				refused, time.Since(start), node, most)
		})
	}
}

// TestALoopComesBeyondTheEnd: a loop of release and acquire never leaves its directory
// empty. It is refused once.
func TestALoopComesBeyondTheEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock := coordtest.Connect(t, srv).Mutex(lockPath)
		a, _ := coordtest.Hold(t, lock)
		eventstest.Must(t, srv.SetSequence(lockPath, events.SeqEnd-5))
		refused, node := 0, ""
		for range 20 {
			a.Release()
			a = lock.Acquire(t.Context())
			grant, err := a.Wait(t.Context())
			if errors.Is(err, coordinator.ErrSequenceEnd) {
				refused++
			}
			node = grant.Node
		}
		expect(t, refused <= 1 && !events.Late(node),
			"of 20 in a row %d are refused, and the last is %q; want at most one, and a new directory", refused, node)
	})
}

// TestADirectoryWithAWaiterIsNotRenewed before the waiter has left. Another client's
// directory is left alone.
func TestADirectoryWithAWaiterIsNotRenewed(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		held, _ := coordtest.Hold(t, a.Mutex(lockPath))
		eventstest.Must(t, srv.SetSequence(lockPath, events.SeqLate))
		waiter := coordtest.Queue(b.Mutex(lockPath))
		held.Release()
		grant := coordtest.Soon(t, waiter)
		behind := coordtest.Queue(a.Mutex(lockPath))
		coordtest.End(waiter)
		last := coordtest.Soon(t, behind)
		expect(t, events.Late(grant.Node) && events.Late(last.Node) && last.Token > grant.Token,
			"granted %+v and then %+v, want late numbers, as the directory was never empty", grant, last)
		coordtest.End(behind)
		_, fresh := coordtest.Hold(t, b.Mutex(lockPath))
		expect(t, strings.HasSuffix(fresh.Node, "0000000000") && fresh.Token > last.Token,
			"when it was empty, granted %+v after %+v, want number 0 and a greater token", fresh, last)

		const theirs = "/theirs/lock"
		eventstest.Must(t, srv.Create(path.Dir(theirs), nil))
		eventstest.Must(t, srv.Create(theirs, []byte("somebody's")))
		eventstest.Must(t, srv.SetSequence(theirs, events.SeqLate))
		holdAgainAndAgain(t, a.Mutex(theirs), 1)
		expectData(t, srv, theirs, "somebody's")
	})
}

// TestRealRenewal: in one transaction, a real server deletes a node and its directory and
// creates the directory again, unless there is another node. Numbers start at 0 again.
func TestRealRenewal(t *testing.T) {
	eventstest.NeedsServers(t)
	raw, all := coordtest.RawClient(t, coordtest.Servers(t, 1).Addr(0)), zk.WorldACL(zk.PermAll)
	const dir = "/renewed"
	makes := func() string {
		t.Helper()
		node, err := raw.Create(dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, all)
		eventstest.Must(t, err)
		return node
	}
	renew := func(own string) error {
		res, err := raw.Multi(&zk.DeleteRequest{Path: own, Version: -1}, &zk.DeleteRequest{Path: dir, Version: 0},
			&zk.CreateRequest{Path: dir, Acl: all})
		for _, r := range res {
			if r.Error != nil && r.Error.Error() != "unknown error: -2" { // another operation failed
				return r.Error
			}
		}
		return err
	}
	makeNodes(t, raw, [2]string{dir})
	first, second := makes(), makes()
	expectError(t, renew(first), zk.ErrNotEmpty, "with another node in it")
	eventstest.Must(t, raw.Delete(first, -1))
	eventstest.Must(t, renew(second))
	expectEqual(t, makes(), dir+"/lock-0000000000", "the first node in the new directory")
}

// TestRealSequenceEnds: a server that has counted to the end of 31 bits assigns the last
// number again and again, or negative ones. A contender with such a number is refused,
// and the directory is renewed. Creating two billion nodes would take too long, so the
// test edits a snapshot.
func TestRealSequenceEnds(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("ZKGRANT_FULL=1 runs it, and make versions; TestADirectoryAtItsEndIsRenewed has every kind of lock")
	}
	t.Parallel()
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "60000"),
		ensemble.Property("zookeeper.digest.enabled", "false"), // so that the snapshot ends with its nodes
		ensemble.Property("zookeeper.serializeLastProcessedZxid.enabled", "false"))
	ctx := coordtest.RealContext(t)
	const theirs = "/theirs"
	c, before := coordtest.ConnectReal(t, e.Addr(0)), events.Grant{}
	for _, dir := range []string{theirs, lockPath} {
		var a *coordinator.Acquisition
		a, before = coordtest.HoldReal(t, c.Mutex(dir))
		coordtest.End(a)
	}
	eventstest.Must(t, e.Kill(0))
	eventstest.Must(t, e.Restart(0)) // it writes a snapshot
	eventstest.Must(t, e.Wait(ctx))
	eventstest.Must(t, e.Kill(0))
	setSequence(t, e.DataDir(0), math.MaxInt32-1, lockPath, theirs)
	eventstest.Must(t, e.Restart(0))
	eventstest.Must(t, e.Wait(ctx))

	raw := coordtest.RawClient(t, e.Addr(0))
	var numbers string
	for range 3 {
		node, err := raw.Create(theirs+"/x-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		numbers += " " + cmp.Or(strings.TrimPrefix(node, theirs+"/x-"), fmt.Sprint(err))
	}
	const last, again, below = " 2147483646 2147483647", " zk: node already exists", " -2147483648"
	expect(t, numbers == last+again || numbers == last+below,
		"the server counts%s, want the last numbers, and then the last again, or the first below 0", numbers)
	for dir, which := range map[string]string{lockPath: "the last number but one", theirs: "a number that is not unique, or below 0"} {
		_, err := c.Mutex(dir).Acquire(ctx).Wait(ctx)
		expectError(t, err, coordinator.ErrSequenceEnd, which)
	}
	_, after := coordtest.HoldReal(t, c.Mutex(lockPath))
	expect(t, !events.Late(after.Node) && after.Token > before.Token,
		"the second is granted %s with token %d after %d, want a small number and a greater token",
		after.Node, after.Token, before.Token)
}

// setSequence edits the newest snapshot of a stopped server: it sets the next sequence
// number of the directories.
func setSequence(t *testing.T, dataDir string, next uint32, dirs ...string) {
	t.Helper()
	zxid := func(file string) (n int64) {
		n, err := strconv.ParseInt(path.Ext(file)[1:], 16, 64)
		eventstest.Must(t, err)
		return n
	}
	files, err := filepath.Glob(filepath.Join(dataDir, "version-2", "snapshot.*"))
	eventstest.Must(t, err)
	newest := slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(zxid(a), zxid(b)) })
	all, err := os.ReadFile(newest)
	eventstest.Must(t, err)
	word := binary.BigEndian
	for _, dir := range dirs {
		// The path, the data, the number of an ACL, four times and zxids, the data's
		// version, and the sequence number.
		_, node, found := bytes.Cut(all, append(word.AppendUint32(nil, uint32(len(dir))), dir...))
		if !found {
			t.Fatalf("%s is not in %s", dir, newest)
		}
		data := max(0, int32(word.Uint32(node)))
		word.PutUint32(node[4+data+8+4*8+4:], next)
	}
	const seal = 8 + 4 + 1 // the checksum, and "/"
	word.PutUint64(all[len(all)-seal:], uint64(adler32.Checksum(all[:len(all)-seal])))
	eventstest.Must(t, os.WriteFile(newest, all, 0o600))
}
