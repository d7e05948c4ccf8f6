package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Remove deletes a node, whichever session owns it. A node that is gone is no error. The path is
// without the chroot. A holder whose node is removed so may work on beside the next holder: this
// is for an operator who knows that it does not.
func (s *Session) Remove(ctx context.Context, node string) error {
	node = under(s.chroot, node)
	_, err := call(ctx, s, terms{urgent: joining}, func(c *client) (struct{}, error) {
		err := c.conn.Delete(node, anyVersion)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}
