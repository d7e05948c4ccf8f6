package session

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file executes the transactions that package recipes plans. It fills in the nodes
// of a request, sends the operations of a plan unchanged, and passes the answer on.

// create creates the seat's nodes for an attempt, and their directories if they are
// missing.
func (c *client) create(t *Seat, e recipes.Create, id guid) (recipes.Input, error) {
	epoch := e.Epoch
	x := &recipes.Errand{Op: recipes.OpCreate, Epoch: epoch, Layout: t.layout, Dir: t.dir, Data: t.dataIn(c)}
	switch x.Layout {
	case recipes.LayoutNode:
		// The node's name and session do not identify the seat that created it. So a
		// seat's create is not sent until the outcome of another seat's create is known.
		if !c.owners.enter(t) {
			return recipes.Occupied{Epoch: epoch}, nil
		}
		x.Nodes, x.Data = []string{t.single.node}, t.data
	case recipes.LayoutPlace:
		x.Writer, x.Lent = t.in.ownNode(), t.lent
		writer, ok := events.ParseName(path.Base(x.Writer))
		if !ok {
			return recipes.Refused{Epoch: epoch, Op: recipes.OpCreate, Missing: true}, ErrGuard
		}
		x.Nodes = t.prefixes(id)
		// The number of the write node gives the read node its place in the queue.
		x.Nodes[0] += fmt.Sprintf("%010d", writer.Seq)
	case recipes.LayoutQueue, recipes.LayoutSeveral:
		x.Nodes = t.prefixes(id)
	}
	if e.Back.Text != "" {
		x.Leavers = t.nodes(t.at(e.Back))
	} else if t.permits != nil {
		c.mayEnterAtOnce(t, x, id)
	}
	leavers := x.Leavers // carryOut clears the field if it deletes them separately
	in, err := c.carryOut(t, x)
	if _, created := in.(recipes.Created); created && t.permits != nil {
		c.permitsLeft(t, leavers)
	}
	return in, err
}

// mayEnterAtOnce adds to a semaphore's create what it needs to take permits without a
// place in the queue.
func (c *client) mayEnterAtOnce(t *Seat, x *recipes.Errand, id guid) {
	if attempt, _ := t.attempted(); attempt > 1 {
		return // an earlier attempt may have given back its permits
	}
	known := c.dirs.size(t.permits.size)
	x.Size, x.Count, x.Version = t.permits.size, known.size, known.version
	x.Permit, x.Permits = path.Join(t.permits.dir, permitHead(id, 0)), t.permits.wanted
}

// claim sends a write through the quorum that succeeds only if all of the seat's nodes
// exist. The loop judges the lease.
func (c *client) claim(t *Seat, e recipes.Claim) (recipes.Input, error) {
	x := &recipes.Errand{Op: recipes.OpClaim, Epoch: e.Epoch, Layout: t.layout, Dir: t.dir, Record: e.Record}
	var incomplete recipes.Input
	if x.Nodes, incomplete = t.claimed(e.Epoch, t.at(e.Node)); incomplete != nil {
		return incomplete, errIncomplete
	}
	if x.Record != recipes.RecordNothing {
		x.Holder, x.Holding = t.recordPath(), t.record(x.Nodes[0])
	}
	return c.carryOut(t, x)
}

// enter trades the seat's node for permits.
func (c *client) enter(t *Seat, e recipes.Enter, id guid) (recipes.Input, error) {
	own := t.at(e.Node)
	if e.Floor {
		c.dirs.noteLeft(t.dir, e.Node.Text) // before any seat can learn that it is gone
	}
	return c.carryOut(t, &recipes.Errand{
		Op: recipes.OpEnter, Epoch: e.Epoch, Dir: t.dir, Nodes: []string{own}, Data: t.dataIn(c),
		Floor: e.Floor,
		Size:  t.permits.size, Version: e.Version,
		Permit: path.Join(t.permits.dir, permitHead(id, t.token(own))), Permits: e.Permits,
	})
}

// remove deletes the seat's nodes. If it leaves a floor, the session notes that.
func (c *client) remove(t *Seat, e recipes.Delete, nodes []string) (recipes.Input, error) {
	x := &recipes.Errand{
		Op: recipes.OpDelete, Epoch: e.Epoch, Layout: t.layout, Dir: t.dir, Nodes: nodes,
		Floor: e.Floor, Clean: e.Clean,
	}
	own := nodes[0]
	switch {
	case x.Layout == recipes.LayoutNode:
		return c.removeSingle(t, x)
	case len(nodes) > 1:
		x.Layout = recipes.LayoutSeveral
		return c.carryOut(t, x)
	case e.Clean:
		x.Holder = t.recordPath()
	}
	x.Layout = recipes.LayoutQueue // even if only one node of several is known
	// The numbers in this directory are almost used up. Delete it along with the node,
	// because a new directory starts at 0.
	if events.Late(own) && x.Renews() && c.renewDirectory(t, path.Dir(own), own) {
		return recipes.Deleted{Epoch: e.Epoch}, nil
	}
	if e.Floor {
		c.dirs.noteLeft(t.dir, e.Node.Text) // before any seat can learn that it is gone
	}
	in, err := c.carryOut(t, x)
	if _, gone := in.(recipes.Deleted); gone && e.Floor {
		c.dirs.removed(t.dir, e.Node.Text)
	}
	return in, err
}

// permitsLeft notes that a semaphore's nodes are gone. If they are permits, it counts
// them as free.
func (c *client) permitsLeft(t *Seat, nodes []string) {
	if len(nodes) > 0 && path.Dir(nodes[0]) == t.permits.dir {
		c.dirs.fewer(t.permits.dir, len(nodes))
	}
}

// carryOut executes one transaction after another, until there is an answer for the
// machine.
func (c *client) carryOut(t *Seat, x *recipes.Errand) (recipes.Input, error) {
	var dirs []string   // the missing directories that were created
	var recordErr error // why the record of a releasing holder was not removed
	var at recipes.Operation
	for try := range recipes.Tries {
		// The create of a withdrawn seat ends here. Otherwise the process could end up
		// with two nodes:
		//
		//  1. The server answers that the directory does not exist.
		//  2. The seat is withdrawn, and the connection is lost. Without a connection,
		//     the caller does not wait for the end of the request, and acquires the lock
		//     again.
		//  3. On the next connection, both create a node.
		if x.Op == recipes.OpCreate && len(x.Leavers) == 0 && t.isWithdrawn(x.Epoch) {
			return recipes.Canceled{Epoch: x.Epoch}, nil
		}
		p := x.Plan(c.view(t, x))
		var a recipes.Answer
		var err error
		// At a path that seems new, create the directory and the node in one round trip.
		if try == 0 && x.Op == recipes.OpCreate && len(p) == 1 && c.isFresh(t, x) {
			if a, x.Made, err = c.createFresh(t, x, p); x.Made {
				dirs = append(dirs, x.Dir)
			}
		} else {
			a, err = c.perform(t, p)
		}
		// The directories created above now have nodes, so they must not be deleted as
		// bare ones.
		if dirs != nil && a.Result == recipes.ResultDone {
			filled, s := dirs, t.session
			s.loop.Post(func() {
				for _, dir := range filled {
					s.leftovers.Filled(dir)
				}
			})
		}
		m := c.means(t, x, p, a)
		if a.Result != recipes.ResultDone {
			at = p.Refused(a)
		}
		switch m.Then {
		case recipes.ThenTell, recipes.ThenCount:
			// The node is gone and the lock is released, but the next Grant will report a
			// crash. The caller must know that.
			if recordErr != nil && (a.Result == recipes.ResultDone || a.Result == recipes.ResultNoNode) {
				return m.In, c.recordStays(t, recordErr)
			}
			if err != nil {
				err = t.explain(p, a, m.In, err)
			}
			if m.Then == recipes.ThenCount {
				return c.count(t, m.In)
			}
			return m.In, err
		case recipes.ThenMakeParents:
			made, err := c.makeParentsOf(t, m.Dir, at.Member)
			if err != nil {
				// If a node is missing, it is a directory. So the machine must not
				// conclude that its own node is gone.
				return notOwn(unanswered(x.Epoch, x.Op, err))
			}
			dirs = append(dirs, made...)
		case recipes.ThenReadRecord:
			if m, err = c.readRecord(t, x); m.Then == recipes.ThenTell {
				return m.In, err
			}
		case recipes.ThenLook:
			if m, err = c.lookAt(t, x); m.Then == recipes.ThenTell {
				return m.In, err
			}
		case recipes.ThenAgain:
			// The next try deletes the node without the record, so that the lock is
			// released. The error is reported at the end.
			if x.Op == recipes.OpDelete && at.On == recipes.OnRecord && a.Result != recipes.ResultNoNode {
				recordErr = err
			}
		case recipes.ThenApart:
			if x.Op == recipes.OpDelete {
				return c.removeApart(t, x)
			}
			// In one transaction, unless one of them is gone: others would see a part of
			// them until the last one is deleted.
			switch in, err := c.remove(t, recipes.Delete{Epoch: x.Epoch}, x.Leavers); in.(type) {
			case recipes.Unknown:
				return recipes.Unknown{Epoch: x.Epoch, Op: x.Op}, err // a look-up finds what is left
			case recipes.Refused:
				return recipes.Refused{Epoch: x.Epoch, Op: x.Op}, err
			}
			// Now all of them are gone. The create is next sent by itself.
			x.Leavers = nil
		}
	}
	return x.Exhausted(), fmt.Errorf("%s changes as often as it is written: %w", at.Path, zk.ErrNoNode)
}

// barrierOf makes the write that precedes a list request. It returns nil if that
// succeeded, and an answer for the machine otherwise.
func (c *client) barrierOf(t *Seat, epoch recipes.Epoch) (recipes.Input, error) {
	x := &recipes.Errand{Op: recipes.OpList, Epoch: epoch, Dir: t.dir}
	p := x.Plan(recipes.View{})
	a, err := c.perform(t, p)
	m := x.Means(p, a)
	if m.Then == recipes.ThenLook {
		return nil, nil
	}
	return m.In, t.explain(p, a, m.In, err)
}

// view returns what the plan of an errand depends on.
func (c *client) view(t *Seat, x *recipes.Errand) recipes.View {
	v := recipes.View{Brief: t.brief}
	creates := x.Op == recipes.OpCreate
	switch {
	case creates && t.members != nil:
		v = c.viewOfMembers(t, MaxRequest)
	case x.Layout == recipes.LayoutNode:
		v.Plain = t.single.plain.Load()
	case creates || x.Floor:
		v.Dir = c.dirs.book(t.dir)
	}
	if x.Floor {
		v.Token = t.token(x.Nodes[0])
	}
	if x.Permits > 0 {
		v.Permits = c.dirs.book(t.permits.dir)
	}
	return v
}

// viewOfMembers returns the view for a multi-lock's create, or for a turnover of one.
// room is how many bytes the request may take.
func (c *client) viewOfMembers(t *Seat, room int) (v recipes.View) {
	v.Brief = t.marksFit(len(t.dataIn(c)), room)
	for _, m := range t.members {
		v.Members = append(v.Members, c.dirs.book(m.dir))
	}
	return v
}

// means returns the meaning of an answer, and notes what it says about a directory, the
// data of the single node, and the seat's nodes. So a seat knows its nodes before its
// machine holds the lock.
func (c *client) means(t *Seat, x *recipes.Errand, p recipes.Plan, a recipes.Answer) recipes.Meaning {
	m := x.Means(p, a)
	switch {
	case m.Note == recipes.NoteNothing:
	case x.Layout != recipes.LayoutNode:
		c.dirs.learn(m.Dir, m)
	case m.Note == recipes.NoteShut:
		t.single.plain.Store(true)
	}
	if x.Op == recipes.OpEnter && a.Result == recipes.ResultDone { // before any seat learns of it
		if x.Floor {
			c.dirs.removed(t.dir, path.Base(x.Nodes[0]))
		}
		// Otherwise the session would believe that the queue is occupied, and no later
		// create would take permits at once.
		c.dirs.fewer(t.dir, 1)
	}
	if a.Result != recipes.ResultDone && p.Refused(a).On == recipes.OnSize {
		c.dirs.sized(x.Size, sizeRead{})
	}
	switch in := m.In.(type) {
	case recipes.Created:
		if in.Alone {
			t.nameOwn(c, in.Epoch, a.Nodes, in.Token)
		}
	case recipes.Enqueued:
		t.nameOwn(c, in.Epoch, a.Nodes, in.Token)
	case recipes.Entered:
		t.nameOwn(c, in.Epoch, a.Nodes, in.Token)
	}
	return m
}

// count reports to the machine how many permits are in use.
func (c *client) count(t *Seat, in recipes.Input) (recipes.Input, error) {
	entered, _ := in.(recipes.Entered) // the only answer that needs a count
	inUse, err := c.inUse(t, false)
	if err != nil {
		return recipes.Unknown{Epoch: entered.Epoch, Op: recipes.OpEnter}, err // a look-up finds and counts the permits
	}
	entered.InUse = inUse
	return entered, nil
}

// explain returns the error that accompanies the answer: nil if the request succeeded,
// and otherwise why its outcome is unknown or it was refused.
func (t *Seat) explain(p recipes.Plan, a recipes.Answer, in recipes.Input, err error) error {
	if _, unknown := in.(recipes.Unknown); unknown {
		return err
	}
	refused, ok := in.(recipes.Refused)
	if !ok {
		return nil
	}
	switch at := p.Refused(a); {
	case at.On == recipes.OnRecord:
		return fmt.Errorf("%s: %w", at.Path, err)
	case refused.Op == recipes.OpCreate && t.in != nil && a.Result == recipes.ResultNoNode:
		return fmt.Errorf("%w: %w", ErrGuard, err)
	default:
		return otherKind(t.blame(cmp.Or(at.Path, p[0].Path), err))
	}
}

// errRecordStays reports that the node is gone, but not the record beside the lock.
var errRecordStays = errors.New("released, but its crash record stays")

// recordStays logs and returns the error of a release that could not remove the record.
func (c *client) recordStays(t *Seat, err error) error {
	record := t.recordPath()
	c.logger.Warn("could not delete the crash record of a holder that has released; the next Grant reports a crash",
		zap.String("record", record), zap.Error(err))
	return fmt.Errorf("%w at %s: %w", errRecordStays, record, err)
}

// makeParentsOf creates a directory that an errand did not find, and returns what it
// created. For a multi-lock, that is one member's directory, and those of later members
// may be missing, too.
func (c *client) makeParentsOf(t *Seat, dir string, member int) (made []string, _ error) {
	data := recipes.Marker()
	switch {
	case t.members != nil:
		return t.listedDirs(), c.makeMembers(t, member)
	case t.single != nil:
		data = nil
	}
	return []string{dir}, c.makeParents(dir, data, t.acl, t.kind.Kazoo())
}

// removeApart deletes the errand's nodes one by one.
func (c *client) removeApart(t *Seat, x *recipes.Errand) (refused recipes.Input, refusal error) {
	for i := range x.Nodes {
		one := &recipes.Errand{Op: recipes.OpDelete, Epoch: x.Epoch, Nodes: x.Nodes[i : i+1]}
		switch in, err := c.carryOut(t, one); in.(type) {
		case recipes.Unknown:
			return in, err // all of it is repeated, whatever the other answers are
		case recipes.Refused:
			refused, refusal = in, err
		}
	}
	if refused != nil {
		return refused, refusal
	}
	return recipes.Deleted{Epoch: x.Epoch}, nil
}

// perform executes the transaction of a plan. A plan with a single create or delete is
// sent without a transaction.
func (c *client) perform(t *Seat, p recipes.Plan) (a recipes.Answer, err error) {
	var few [8]any // stays on the stack
	ops := few[:0]
	for _, o := range p {
		switch o.Do {
		case recipes.DoCreate:
			acl := t.acl
			if t.members != nil {
				acl = t.members[o.Member].acl
			}
			ops = append(ops, &zk.CreateRequest{Path: o.Path, Data: o.Data, Acl: acl, Flags: int32(o.Flags)})
		case recipes.DoDelete:
			ops = append(ops, &zk.DeleteRequest{Path: o.Path, Version: o.Version})
		case recipes.DoSet:
			ops = append(ops, &zk.SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version})
		default:
			ops = append(ops, &zk.CheckVersionRequest{Path: o.Path, Version: o.Version})
		}
	}
	// A transaction with a single operation costs the server more than the bare
	// operation.
	create, creates := ops[0].(*zk.CreateRequest)
	remove, removes := ops[0].(*zk.DeleteRequest)
	var res []zk.MultiResponse
	var outcome zkerr.Outcome
	switch {
	case creates && len(ops) == 1:
		res = make([]zk.MultiResponse, 1)
		res[0].String, err = c.conn.Create(create.Path, create.Data, create.Flags, create.Acl)
		outcome, err = zkerr.Classify(err)
	case removes && len(ops) == 1:
		outcome, err = zkerr.Classify(c.conn.Delete(remove.Path, remove.Version))
	default:
		// Even a single check is a transaction: it goes through the quorum, whereas a
		// follower answers a read alone.
		res, err = c.conn.Multi(ops...)
		outcome, a.At, err = zkerr.ClassifyMulti(res, err)
	}
	if outcome != zkerr.Done {
		a.Result = refusal(outcome, err)
		return a, err
	}
	if a.Result = recipes.ResultDone; len(res) < len(ops) {
		return a, nil // a single delete, which has no result
	}
	for i, r := range res {
		switch {
		case p[i].Do == recipes.DoCreate:
			a.Nodes = append(a.Nodes, r.String)
		case r.Stat != nil:
			a.Stats = append(a.Stats, recipes.Stat{
				Czxid: r.Stat.Czxid, Mzxid: r.Stat.Mzxid, Children: r.Stat.NumChildren,
				Version: r.Stat.Version, Mtime: r.Stat.Mtime,
			})
		}
	}
	return a, nil
}

// refusal returns the result of a transaction that was refused, or whose outcome is
// unknown.
func refusal(outcome zkerr.Outcome, err error) recipes.Result {
	switch {
	case !outcome.Settled():
		return recipes.ResultUnknown
	case errors.Is(err, zk.ErrNoNode):
		return recipes.ResultNoNode
	case errors.Is(err, zk.ErrNodeExists):
		return recipes.ResultNodeExists
	case errors.Is(err, zk.ErrBadVersion):
		return recipes.ResultBadVersion
	default:
		return recipes.ResultRefused
	}
}
