package session

import (
	"errors"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// removal removes a node, in any epoch. It is made until its outcome is known.
type removal struct {
	slot

	node    string
	load    budget.Load
	counted bool
	debt    budget.Debt // the node counts in the budget until it is known to be gone
}

// admit counts the node. It may be one of this session, and the seat has queued up again
// beside it.
func (r *removal) admit(s *Session) {
	if !r.counted {
		r.debt, r.counted = s.budget.Remove(r.load), true
		s.showFill()
	}
	s.pending.add(r)
}

func (r *removal) meantFor() recipes.Epoch { return 0 }

func (r *removal) urgency() urgency { return handing }

func (r *removal) refuse() {} // the session is closed, and its nodes go with it

func (r *removal) do(c *client) (func(*Session), error) {
	again, gone := c.discard(r.node)
	return func(s *Session) {
		if again {
			s.again(c, r)
			return
		}
		s.budget.Removed(r.debt, gone)
		s.roomMade()
	}, nil
}

// discard deletes a node. It reports whether to try again, and whether the node is known
// to be gone.
func (c *client) discard(node string) (again, gone bool) {
	outcome, err := zkerr.Classify(c.conn.Delete(node, anyVersion))
	switch {
	case outcome == zkerr.Done || errors.Is(err, zk.ErrNoNode):
		return false, true
	case !outcome.Settled():
		return true, false
	default:
		c.logger.Error("could not delete a node of an earlier session", zap.String("node", node), zap.Error(err))
		return false, false
	}
}
