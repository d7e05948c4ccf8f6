package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestNoSecretIsTold: neither the log, on its most talkative level, nor an error has a password. The session is accepted, cut off, and
// refused.
func TestNoSecretIsTold(t *testing.T) {
	const password, token = "s3cret-password", "s3cret-token"
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.DebugLevel)
		mechanism := sasl.DigestMD5("bob", password)
		options := []coordinator.Option{
			coordinator.WithSASL(mechanism), coordinator.WithAuth("digest", []byte("app:"+token)), coordinator.WithLogger(zap.New(core)),
			coordinator.WithACL(zk.AuthACL(zk.PermAll)),
		}
		told := []string{fmt.Sprintf("%v %+v %#v", mechanism, mechanism, mechanism)}
		srv.AddUser("bob", "another")
		_, err := coordinator.Connect(t.Context(), srv.Addr(), append(options, srv.Option())...)
		told = append(told, fmt.Sprint(err))
		srv.AddUser("bob", password)
		c := coordtest.Connect(t, srv, options...)
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.CutAll()
		time.Sleep(time.Second)
		srv.AddUser("bob", "another")
		srv.CutAll()
		coordtest.LossOf(t, held)
		told = append(told, fmt.Sprint(held.Err()))
		for _, line := range logs.All() {
			told = append(told, fmt.Sprint(line.Message, line.ContextMap()))
		}
		if len(told) < 10 {
			t.Errorf("%d lines and errors, want 10 or more", len(told))
		}
		for _, said := range told {
			if strings.Contains(said, password) || strings.Contains(said, token) {
				t.Errorf("a secret is told: %s", said)
			}
		}
	})
}
