package session

import (
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file makes the transactions that package recipes plans: it gives the nodes their paths, and translates a server's answers.

// errand is a machine's request that writes, with what its plans do not say.
type errand struct {
	recipes.Errand
	seat *Seat

	// Paths. For a node to be created it is what its path begins with.
	own    string   // of the own node
	nodes  []string // of all own nodes, if there may be several, or of the permits that were made
	writer string   // of the node of the writer in whose place the own node stands
	leaver string   // of the node that a turnover deletes
	permit string   // of each permit to be taken

	name             string // of an enter: what the machine calls the own node
	permits, version int32  // of an enter

	multi *multi  // of a create for several nodes
	known []int64 // the zxids of its directories, if all may be marked

	made   string // the path of the node that was created
	at     string // the path at which a transaction has failed
	member int    // and which of several it is
	unshed error  // why the record of a holder that has released was not removed
	record *found // of a claim: the record that it has found
}

// carryOut makes one transaction after the other, until there is an answer for the machine.
func (c *client) carryOut(x errand) (recipes.Input, error) {
	var made []string // directories that were missing
	for range recipes.Tries {
		p := x.Plan(x.view(c))
		a, err := c.perform(&x, p)
		if made != nil && a.Result == recipes.ResultDone {
			s := x.seat.session
			s.loop.Post(func() { s.filled(made) })
		}
		m := x.means(c, p, a)
		switch m.Then {
		case recipes.ThenTell, recipes.ThenCount:
			in, err := c.tell(&x, m.In, a, err)
			if m.Then == recipes.ThenCount {
				return c.count(&x, in)
			}
			return in, err
		case recipes.ThenMakeParents:
			x.at = x.missing(a.At)
			if err := c.makeParentsOf(&x); err != nil {
				return notOwn(unanswered(x.Epoch, x.Op, err))
			}
			made = append(made, x.madeBy()...)
		case recipes.ThenReadRecord:
			x.Errand = m.Next
			if in, err := c.readRecord(&x); in != nil {
				return in, err
			}
			continue
		case recipes.ThenLook:
			var in recipes.Input
			if m, in, err = c.lookAt(&x); in != nil {
				return in, err
			}
		case recipes.ThenAgain:
			if x.Op == recipes.OpDelete && a.At.On == recipes.OnRecord && a.Result != recipes.ResultNoNode {
				x.unshed = err
			}
		case recipes.ThenApart:
			return c.removeApart(&x)
		}
		x.Errand = m.Next
	}
	return x.Exhausted(), fmt.Errorf("%s is deleted as often as it is made: %w", x.at, zk.ErrNoNode)
}

// barrierOf makes the write that comes before a list request. It returns nil if it was made, and an answer otherwise.
func (c *client) barrierOf(t *Seat, epoch recipes.Epoch) (recipes.Input, error) {
	x := errand{Errand: recipes.Errand{Op: recipes.OpList, Epoch: epoch}, seat: t}
	p := x.Plan(x.view(c))
	a, err := c.perform(&x, p)
	m := x.means(c, p, a)
	if m.Then == recipes.ThenLook {
		return nil, nil
	}
	return c.tell(&x, m.In, a, err)
}

// view is what the plan of an errand depends on.
func (x *errand) view(c *client) recipes.View {
	t := x.seat
	v := recipes.View{Brief: t.brief()}
	switch {
	case x.multi != nil:
		x.known = x.multi.known(c, t)
		v.All = x.known != nil
	case x.Layout == recipes.LayoutNode:
		v.Plain = t.single.plain.Load()
	case x.Op == recipes.OpCreate || x.Floor:
		v.Dir = c.dirs.book(t.dir)
	}
	if x.Floor {
		v.Token = t.token(x.own)
	}
	if x.Op == recipes.OpEnter {
		v.Permits = c.dirs.book(t.permits.dir)
	}
	return v
}

// means returns what follows from an answer, and notes it in the books.
func (x *errand) means(c *client, p recipes.Plan, a recipes.Answer) recipes.Meaning {
	m := x.Means(p, a)
	dir := x.seat.dir
	switch {
	case x.Layout == recipes.LayoutNode:
		x.seat.single.plain.CompareAndSwap(false, m.Note == recipes.NoteShut)
		return m
	case m.Note == recipes.NoteShut:
		dir = x.at
	case m.Note == recipes.NoteGone:
		dir = x.missing(a.At)
	}
	c.dirs.learn(dir, m)
	return m
}

// missing returns the directory that an operation did not find.
func (x *errand) missing(o recipes.Operation) string {
	if o.Do == recipes.DoSet {
		return x.at
	}
	return path.Dir(x.at)
}

// tell returns the answer for the machine, and the error if it is not what the machine has asked for.
func (c *client) tell(x *errand, in recipes.Input, a recipes.Answer, err error) (recipes.Input, error) {
	t := x.seat
	switch in := in.(type) {
	case recipes.Created:
		if in.Alone {
			t.drop(c, t.nameOwn(x.Epoch, x.made, in.Token))
		}
	case recipes.Enqueued:
		t.nameMembers(c, x.multi, x.Epoch, x.nodes, in.Token)
	case recipes.Entered:
		c.dirs.removed(t.dir, x.name, x.Floor)
		t.namePermits(c, x.Epoch, x.nodes)
	case recipes.Unknown:
		return in, err
	case recipes.Refused:
		return in, c.explain(x, a, err)
	}
	return in, nil
}

// count tells the machine how many permits are in use.
func (c *client) count(x *errand, in recipes.Input) (recipes.Input, error) {
	entered, ok := in.(recipes.Entered)
	inUse, err := c.inUse(x.seat, false)
	if err != nil || !ok {
		return recipes.Unknown{Epoch: x.Epoch, Op: x.Op}, err // a look-up finds the permits, and counts them
	}
	entered.InUse = inUse
	return entered, nil
}

// explain says more about why a request was refused.
func (c *client) explain(x *errand, a recipes.Answer, err error) error {
	switch {
	case x.unshed != nil && (a.Result == recipes.ResultDone || a.Result == recipes.ResultNoNode):
		record := x.seat.recordPath()
		c.logger.Warn("could not remove the record of a holder that has released; the next holder is told of a crash",
			zap.String("record", record), zap.Error(x.unshed))
		return fmt.Errorf("released, and its record stays at %s: %w", record, x.unshed)
	case a.At.On == recipes.OnRecord:
		return fmt.Errorf("%s: %w", x.at, err)
	case x.Layout == recipes.LayoutPlace && a.Result == recipes.ResultNoNode:
		return fmt.Errorf("%w: %w", ErrGuard, err)
	default:
		return otherKind(x.seat.layout.blame(x.at, err))
	}
}

// makeParentsOf makes the directory that an errand did not find, at the path where it has failed.
func (c *client) makeParentsOf(x *errand) error {
	t, data := x.seat, recipes.Marker()
	switch {
	case x.multi != nil:
		return x.multi.makeParents(c, x.member)
	case x.Layout == recipes.LayoutNode:
		data = nil
	}
	return c.makeParents(x.at, data, t.acl, t.kind.Kazoo())
}

// removeApart deletes the nodes one by one.
func (c *client) removeApart(x *errand) (refused recipes.Input, refusal error) {
	for _, node := range x.nodes {
		one := errand{Errand: recipes.Errand{Op: x.Op, Epoch: x.Epoch}, seat: x.seat, own: node}
		switch in, err := c.carryOut(one); in.(type) {
		case recipes.Unknown:
			return in, err // all of it is made again, whatever the other answers are
		case recipes.Refused:
			refused, refusal = in, err
		}
	}
	if refused != nil {
		return refused, refusal
	}
	return recipes.Deleted{Epoch: x.Epoch}, nil
}

// perform makes the transaction of a plan. If the plan has one operation that a server takes by itself, it makes that without a
// transaction.
func (c *client) perform(x *errand, p recipes.Plan) (a recipes.Answer, err error) {
	var outcome zkerr.Outcome
	var res []zk.MultiResponse
	failed := 0
	switch o := p.At(0); {
	case p.Len() == 1 && x.nodes == nil && o.Do == recipes.DoCreate:
		x.made, err = c.conn.Create(x.own, x.data(c, o), x.flags(o), x.seat.acl)
		outcome, err = zkerr.Classify(err)
	case p.Len() == 1 && x.nodes == nil && o.Do == recipes.DoDelete:
		outcome, err = zkerr.Classify(c.conn.Delete(x.own, anyVersion))
	default:
		var few [recipes.MostOperations]any // not on the heap
		ops := few[:0]
		for i := range p.Len() {
			for n := range x.times(p.At(i)) {
				ops = append(ops, x.request(c, p.At(i), n))
			}
		}
		res, err = c.conn.Multi(ops...)
		failed = zkerr.FailedOp(res)
		outcome, err = zkerr.ClassifyMulti(res, err)
		if outcome == zkerr.Done && len(res) < len(ops) {
			return recipes.Answer{Result: recipes.ResultDone}, nil // what it has made is unknown
		}
	}
	if a.Result = resultOf(outcome, err); a.Result == recipes.ResultDone {
		return a, c.understand(x, p, &a, res)
	}
	a.At, x.member = x.which(p, failed)
	x.at = x.path(a.At, x.member)
	return a, err
}

func resultOf(outcome zkerr.Outcome, err error) recipes.Result {
	switch {
	case outcome == zkerr.Done:
		return recipes.ResultDone
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

// understand takes what a transaction has made, and what its answer says of directories.
func (c *client) understand(x *errand, p recipes.Plan, a *recipes.Answer, res []zk.MultiResponse) (err error) {
	var made []string
	for i, r := range res {
		o, member := x.which(p, i)
		stat := recipes.DirectoryStat{}
		if r.Stat != nil {
			stat = recipes.DirectoryStat{Czxid: r.Stat.Czxid, Mzxid: r.Stat.Mzxid, Children: r.Stat.NumChildren}
		}
		switch {
		case o.Do == recipes.DoCreate && (o.On == recipes.OnPermits || x.multi != nil):
			made = append(made, r.String)
		case o.Do == recipes.DoCreate && o.On == recipes.OnOwn:
			x.made = r.String
		case o.Do != recipes.DoSet:
		case o.On == recipes.OnRecord:
			if r.Stat != nil {
				a.Marked = x.record.wrote(r.Stat)
			}
		case x.multi != nil:
			a.Stats = append(a.Stats, stat)
			if r.Stat != nil {
				c.dirs.saw(x.multi.members[member].dir, r.Stat)
			}
		case a.Stat == recipes.DirectoryStat{}:
			a.Stat = stat
		}
	}
	switch {
	case x.multi != nil:
		x.nodes, a.Known = made, x.known
		a.Nodes, err = namesIn(made)
	case made != nil:
		x.nodes = made
		for _, permit := range made {
			a.Permits = append(a.Permits, x.seat.permits.nameOf(permit))
		}
	case x.Layout == recipes.LayoutNode:
		a.Node = x.seat.single.as()
	case x.made != "":
		a.Node, err = nameIn(x.made)
	}
	return err
}

// nameIn reads the name that a server gave to a node, and namesIn those of a multi-lock's nodes.
func nameIn(made string) (events.Name, error) {
	name, ok := events.ParseName(path.Base(made))
	if !ok {
		return events.Name{}, fmt.Errorf("zkgrant: a server made %q", made)
	}
	return name, nil
}

func namesIn(made []string) (names []events.Name, _ error) {
	for i, node := range made {
		name, err := nameIn(node)
		if err != nil {
			return nil, err
		}
		name.Text = recipes.MemberName(i, name.Text)
		names = append(names, name)
	}
	return names, nil
}

// times returns how many requests an operation stands for.
func (x *errand) times(o recipes.Operation) int {
	switch {
	case o.On == recipes.OnPermits:
		return int(x.permits)
	case x.multi != nil, o.On == recipes.OnOwn && x.nodes != nil:
		return len(x.nodes)
	default:
		return 1
	}
}

// which returns the operation of a plan that a request belongs to, and its index among the requests of that operation. -1 is none.
func (x *errand) which(p recipes.Plan, request int) (o recipes.Operation, member int) {
	for i := 0; i < p.Len() && request >= 0; i++ {
		n := x.times(p.At(i))
		if request < n {
			return p.At(i), request
		}
		request -= n
	}
	return recipes.Operation{}, 0
}

// request returns the request of an operation, or one of several.
func (x *errand) request(c *client, o recipes.Operation, member int) any {
	node, version := x.path(o, member), int32(anyVersion)
	switch o.Do {
	case recipes.DoCreate:
		acl := x.seat.acl
		if x.multi != nil {
			acl = x.multi.members[member].acl
		}
		return &zk.CreateRequest{Path: node, Data: x.data(c, o), Acl: acl, Flags: x.flags(o)}
	case recipes.DoDelete:
		return &zk.DeleteRequest{Path: node, Version: version}
	case recipes.DoSet:
		if o.On == recipes.OnRecord {
			version = x.record.version
		}
		return &zk.SetDataRequest{Path: node, Data: x.data(c, o), Version: version}
	default:
		if o.On == recipes.OnSize {
			version = x.version
		}
		return &zk.CheckVersionRequest{Path: node, Version: version}
	}
}

// path returns where an operation is to be made.
func (x *errand) path(o recipes.Operation, member int) string {
	switch t := x.seat; {
	case o.On == recipes.OnDirectory && x.multi != nil:
		return x.multi.members[member].dir
	case o.On == recipes.OnDirectory:
		return t.dir
	case o.On == recipes.OnRecord:
		return t.recordPath()
	case o.On == recipes.OnWriter:
		return x.writer
	case o.On == recipes.OnLeaver:
		return x.leaver
	case o.On == recipes.OnSize:
		return t.permits.size
	case o.On == recipes.OnPermits:
		return x.permit
	case o.On == recipes.OnPermitDirectory:
		return t.permits.dir
	case x.nodes != nil:
		return x.nodes[member]
	default:
		return x.own
	}
}

func (x *errand) flags(o recipes.Operation) int32 {
	switch {
	case o.On == recipes.OnRecord:
		return zk.FlagPersistent
	case x.Layout == recipes.LayoutPlace || x.Layout == recipes.LayoutNode:
		return zk.FlagEphemeral
	default:
		return zk.FlagEphemeral | zk.FlagSequence
	}
}

func (x *errand) data(c *client, o recipes.Operation) []byte {
	switch {
	case o.With == recipes.WithMarker:
		return recipes.Marker()
	case o.With == recipes.WithFloor:
		return recipes.FloorData(x.seat.token(x.own))
	case o.With == recipes.WithMark:
		return x.record.marking()
	case o.With == recipes.WithHolder:
		return x.takingOver()
	case o.On == recipes.OnRecord:
		return x.seat.record(x.own)
	case x.Layout == recipes.LayoutNode:
		return x.seat.data
	default:
		return x.seat.dataIn(c)
	}
}
