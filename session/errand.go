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

// This file makes the transactions that package recipes plans: it gives the nodes their paths, and says what a server has answered.

// errand is a request of a machine's that writes, with what its plans do not say.
type errand struct {
	recipes.Errand
	seat   *Seat
	own    string   // the path of the own node, or what that of one to be created begins with
	nodes  []string // the paths of all own nodes, if there may be several
	writer string   // the path of the node of the writer whose place is taken
	leaver string   // that of the node that a turnover deletes

	made     string // the path of the node that was created
	at       string // the path at which a transaction has failed
	unshed   error  // why the record of a holder who has released was not removed
	attempts int
}

// carryOut makes one transaction after the other, until the machine can be told something.
func (c *client) carryOut(x errand) (recipes.Input, error) {
	for x.attempts < recipes.Tries {
		p := x.Plan(x.view(c))
		a, err := c.perform(&x, &p)
		m := x.means(c, p, a)
		switch m.Then {
		case recipes.ThenTell:
			return c.tell(&x, m.In, a, err)
		case recipes.ThenMakeParents:
			x.attempts++
			if in, err := c.makeParentsFor(&x); err != nil {
				return in, err
			}
		case recipes.ThenReadRecord:
			x.attempts++
			if in, err := c.readRecord(&x); in != nil {
				return in, err
			}
			continue
		case recipes.ThenAgain:
			if a.At.On == recipes.OnRecord && a.Result != recipes.ResultNoNode {
				x.unshed = err
			}
		case recipes.ThenApart: // only of a turnover, for which see there
		}
		x.Errand = m.Next
	}
	return x.Exhausted(), fmt.Errorf("%s is deleted as often as it is made: %w", x.at, zk.ErrNoNode)
}

// view is what the plan of an errand depends on.
func (x *errand) view(c *client) recipes.View {
	v := recipes.View{Brief: x.seat.brief()}
	switch {
	case x.Form == recipes.FormNode:
		v.Plain = x.seat.single.plain.Load()
	case x.Floor:
		v.Token = x.seat.token(x.own)
		fallthrough
	case x.Op == recipes.OpCreate:
		v.Dir = c.dirs.book(x.seat.dir)
	}
	return v
}

// means is what follows from an answer. The books have noted it.
func (x *errand) means(c *client, p recipes.Plan, a recipes.Answer) recipes.Meaning {
	m := x.Means(p, a)
	if x.Form == recipes.FormNode {
		x.seat.single.plain.CompareAndSwap(false, m.Note == recipes.NoteShut)
	} else {
		c.dirs.learn(x.seat.dir, m)
	}
	return m
}

// tell returns what the machine is told, and why, if that is not what it has asked for.
func (c *client) tell(x *errand, in recipes.Input, a recipes.Answer, err error) (recipes.Input, error) {
	switch in := in.(type) {
	case recipes.Created:
		if in.Alone {
			x.seat.drop(c, x.seat.nameOwn(x.Epoch, x.made, in.Token))
		}
	case recipes.Claimed:
		if in.Recorded {
			x.seat.abandoned.Store(in.Abandoned)
		}
	case recipes.Unknown:
		return in, err
	case recipes.Refused:
		return in, c.explain(x, a, err)
	}
	return in, nil
}

// explain says more about why a request was refused.
func (c *client) explain(x *errand, a recipes.Answer, err error) error {
	switch {
	case x.unshed != nil && (a.Result == recipes.ResultDone || a.Result == recipes.ResultNoNode):
		record := x.seat.recordPath()
		c.logger.Warn("could not remove the record of a holder who has released; the next one is told of a crash",
			zap.String("record", record), zap.Error(x.unshed))
		return fmt.Errorf("released, and its record stays at %s: %w", record, x.unshed)
	case a.At.On == recipes.OnRecord:
		return fmt.Errorf("%s: %w", x.at, err)
	case x.Form == recipes.FormPlace && a.Result == recipes.ResultNoNode:
		return fmt.Errorf("%w: %w", ErrGuard, err)
	default:
		return otherKind(x.seat.layout.blame(x.at, err))
	}
}

// makeParentsFor makes the directory that an errand has missed. It returns an error with an answer if it could not.
func (c *client) makeParentsFor(x *errand) (recipes.Input, error) {
	t, data := x.seat, recipes.Marker()
	if x.Form == recipes.FormNode {
		data = nil
	}
	x.at = t.dir
	if err := c.makeParents(t.dir, data, t.acl, t.kind.Kazoo()); err != nil {
		return unanswered(x.Epoch, x.Op, err)
	}
	return nil, nil
}

// perform makes the transaction of a plan. One operation that a server takes by itself is no transaction.
func (c *client) perform(x *errand, p *recipes.Plan) (a recipes.Answer, err error) {
	var res []zk.MultiResponse
	var outcome zkerr.Outcome
	first := p.At(0)
	switch single := p.Len() == 1; {
	case single && first.Do == recipes.DoCreate:
		x.made, err = c.conn.Create(x.path(first), x.dataOf(c, first), x.flagsOf(first), x.seat.acl)
		outcome, err = zkerr.Classify(err)
		a.At, x.at = first, x.own
	case single && first.Do == recipes.DoDelete && x.nodes == nil:
		outcome, err = zkerr.Classify(c.conn.Delete(x.own, anyVersion))
		a.At, x.at = first, x.own
	default:
		ops := make([]any, 0, p.Len()+len(x.nodes))
		for i := range p.Len() {
			ops = x.append(c, ops, p.At(i))
		}
		res, err = c.conn.Multi(ops...)
		failed := zkerr.FailedOp(res)
		outcome, err = zkerr.ClassifyMulti(res, err)
		a.At, x.at = x.failed(p, failed)
	}
	a.Result = resultOf(outcome, err)
	if a.Result == recipes.ResultDone {
		a.At = recipes.Operation{}
		for i, r := range res {
			if r.String != "" && p.At(i).On == recipes.OnOwn {
				x.made = r.String
			}
			if r.Stat != nil {
				a.Stat = recipes.DirectoryStat{Czxid: r.Stat.Czxid, Mzxid: r.Stat.Mzxid, Children: r.Stat.NumChildren}
			}
		}
		if x.made != "" {
			a.Node, err = x.named()
		}
	}
	return a, err
}

// named reads the name that a server gave to a node.
func (x *errand) named() (name events.Name, err error) {
	if x.Form == recipes.FormNode {
		return x.seat.single.as(), nil
	}
	name, ok := events.ParseName(path.Base(x.made))
	if !ok {
		return events.Name{}, fmt.Errorf("zkgrant: a server made %q", x.made)
	}
	return name, nil
}

func resultOf(outcome zkerr.Outcome, err error) recipes.Result {
	switch {
	case outcome == zkerr.Done:
		return recipes.ResultDone
	case outcome == zkerr.Unknown || zkerr.Unsettled(err):
		return recipes.ResultUnknown
	case errors.Is(err, zk.ErrNoNode):
		return recipes.ResultNoNode
	case errors.Is(err, zk.ErrNodeExists):
		return recipes.ResultNodeExists
	default:
		return recipes.ResultRefused
	}
}

// append adds the requests of an operation.
func (x *errand) append(c *client, ops []any, o recipes.Operation) []any {
	if !x.several(o) {
		return append(ops, x.request(c, o, x.path(o)))
	}
	for _, node := range x.nodes {
		ops = append(ops, x.request(c, o, node))
	}
	return ops
}

// several tells whether an operation stands for one on each of the own nodes.
func (x *errand) several(o recipes.Operation) bool { return o.On == recipes.OnOwn && x.nodes != nil }

func (x *errand) request(c *client, o recipes.Operation, node string) any {
	switch o.Do {
	case recipes.DoCreate:
		return &zk.CreateRequest{Path: node, Data: x.dataOf(c, o), Acl: x.seat.acl, Flags: x.flagsOf(o)}
	case recipes.DoDelete:
		return &zk.DeleteRequest{Path: node, Version: anyVersion}
	case recipes.DoSet:
		return &zk.SetDataRequest{Path: node, Data: x.dataOf(c, o), Version: anyVersion}
	default:
		return &zk.CheckVersionRequest{Path: node, Version: anyVersion}
	}
}

// failed returns which operation of a plan a request belongs to, and its path. -1 is none.
func (x *errand) failed(p *recipes.Plan, request int) (recipes.Operation, string) {
	for i := 0; i < p.Len() && request >= 0; i++ {
		o, n := p.At(i), 1
		if x.several(o) {
			n = len(x.nodes)
		}
		switch {
		case request >= n:
			request -= n
		case x.several(o):
			return o, x.nodes[request]
		default:
			return o, x.path(o)
		}
	}
	return recipes.Operation{}, x.own
}

// path returns where an operation is to be made.
func (x *errand) path(o recipes.Operation) string {
	switch o.On {
	case recipes.OnDirectory:
		return x.seat.dir
	case recipes.OnRecord:
		return x.seat.recordPath()
	case recipes.OnWriter:
		return x.writer
	case recipes.OnLeaver:
		return x.leaver
	default:
		return x.own
	}
}

func (x *errand) flagsOf(o recipes.Operation) int32 {
	switch {
	case o.On == recipes.OnRecord:
		return zk.FlagPersistent
	case x.Form == recipes.FormQueue:
		return zk.FlagEphemeral | zk.FlagSequence
	default:
		return zk.FlagEphemeral
	}
}

func (x *errand) dataOf(c *client, o recipes.Operation) []byte {
	switch {
	case o.With == recipes.WithMarker:
		return recipes.Marker()
	case o.With == recipes.WithFloor:
		return recipes.FloorData(x.seat.token(x.own))
	case o.On == recipes.OnRecord:
		return x.seat.record(x.own)
	case x.Form == recipes.FormNode:
		return x.seat.data
	default:
		return x.seat.dataIn(c)
	}
}
