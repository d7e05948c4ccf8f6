package coordtest

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// RealScenes plays those scenes of a file on a real server that are marked for it. What is told has to be the same as on the double,
// sooner or later and in any order.
func RealScenes(t *testing.T, e *ensemble.Ensemble, file string) {
	t.Helper()
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		t.Skip("the double writes what is told")
	}
	n := 0
	scenes(t, file, func(t *testing.T, d *datadriven.TestData) (told string) {
		t.Helper()
		if n++; !d.HasArg("real") {
			return d.Expected
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) { // so that its sessions end with it
			on := &realStage{raw: RawClient(t, e.Addr(0)), servers: e.Connect(), root: fmt.Sprintf("/%s-%d", file, n)}
			told = newDialogue(t, on).play(d.Input, strings.Split(strings.TrimSuffix(d.Expected, "\n"), "\n"))
		})
		return told
	})
}

// realStage is a part of the tree of a real server, for one scene.
type realStage struct {
	raw           *zk.Conn
	servers, root string
}

func (s *realStage) connect(t *testing.T) *coordinator.Coordinator {
	return ConnectReal(t, s.servers+s.root)
}

func (s *realStage) tree() (nodes []string) {
	var walk func(node string)
	walk = func(node string) {
		names, _, err := s.raw.Children(s.root + node)
		if err != nil {
			return // it has gone
		}
		for _, name := range names {
			child := path.Join("/", node, name)
			if data, stat, err := s.raw.Get(s.root + child); err == nil && stat.EphemeralOwner != 0 {
				nodes = append(nodes, fmt.Sprintf("%s %s", child, data))
			}
			walk(child)
		}
	}
	walk("")
	return nodes
}

func (s *realStage) children(dir string) []string {
	names, _, _ := s.raw.Children(s.root + dir)
	return names
}

func (s *realStage) data(node string) (string, bool) {
	data, _, err := s.raw.Get(s.root + node)
	return string(data), err == nil
}

func (s *realStage) made(node string, session, token int64) error {
	_, stat, err := s.raw.Get(s.root + node)
	if err == nil && (token != 0 && stat.Czxid != token || stat.EphemeralOwner != session) {
		return fmt.Errorf("the server has %+v", stat)
	}
	return err
}

func (s *realStage) create(node string, data []byte) error {
	if dir := path.Dir(s.root + node); dir != "/" {
		if err := s.create(strings.TrimPrefix(dir, s.root), nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err := s.raw.Create(s.root+node, data, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (s *realStage) set(node string, data []byte) error {
	_, err := s.raw.Set(s.root+node, data, -1)
	return err
}

func (s *realStage) remove(node string) error { return s.raw.Delete(s.root+node, -1) }

func (s *realStage) settle(reached func() bool) {
	for range 6000 {
		if reached() {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
