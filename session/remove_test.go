package session_test

import (
	"context"
	"testing"

	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// A node is removed whichever session owns it, and one that is gone is none to remove. A refusal
// is an error.
func TestRemove(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.Seated()
		node := sessiontest.Dir + "/" + a.CreateNode(1).Text
		for range 2 {
			if err := r.Session.Remove(context.Background(), node); err != nil {
				t.Errorf("removing %s: %v", node, err)
			}
		}
		if r.Server.Exists(node) {
			t.Errorf("%s is there, want it removed", node)
		}
		r.Must(r.Server.Create("/full/child", nil))
		if err := r.Session.Remove(context.Background(), "/full"); err == nil {
			t.Error("a node with children was removed, want a refusal")
		}
	})
}
