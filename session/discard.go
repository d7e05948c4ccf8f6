package session

import (
	"errors"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// removal removes a node, in any epoch. It is made until its outcome is known.
type removal struct {
	slot

	node string
}

func (r *removal) on(s *Session) { s.pending.add(r) }

func (r *removal) meantFor() recipes.Epoch { return 0 }

func (r *removal) urgency() urgency { return handing }

func (r *removal) refuse() {} // the session is closed, and its nodes go with it

func (r *removal) do(c *client) (func(*Session), error) {
	again := c.discard(r.node)
	return func(s *Session) {
		if again {
			s.again(c, r)
		}
	}, nil
}

// discard deletes a node and reports whether to try again.
func (c *client) discard(node string) (again bool) {
	outcome, err := zkerr.Classify(c.conn.Delete(node, anyVersion))
	switch {
	case outcome == zkerr.Done || errors.Is(err, zk.ErrNoNode):
		return false
	case outcome == zkerr.Unknown || zkerr.Unsettled(err):
		return true
	default:
		c.logger.Error("could not remove a node that a past session left behind", zap.String("node", node), zap.Error(err))
		return false
	}
}
