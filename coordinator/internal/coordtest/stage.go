package coordtest

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A stage is where a scene is played: the double or a real server. Exported methods are
// as in package zktest.
type stage interface {
	connect(t *testing.T, options ...coordinator.Option) *coordinator.Coordinator
	// tree returns all ephemeral nodes with their data, as "path data".
	tree() []string
	Children(path string) []string
	Data(path string) (data []byte, there bool)
	// made returns an error unless the session created the node, with this token if token
	// is not 0.
	made(node string, session, token int64) error
	Create(path string, data []byte) error
	SetData(path string, data []byte) error
	Delete(path string) error
	// settle waits until the state is reached, or cannot change any more.
	settle(reached func() bool)
}

// timeoutLine matches the line after the data in a revocable lock's node.
var timeoutLine = regexp.MustCompile(`(^|\n)zkgrant-timeout [0-9]+ms\n$`)

func stored(data []byte) string { return timeoutLine.ReplaceAllString(string(data), "") }

// doubleStage is the in-process server.
type doubleStage struct{ *zktest.Server }

func (s doubleStage) connect(t *testing.T, options ...coordinator.Option) *coordinator.Coordinator {
	return Connect(t, s.Server, options...)
}

func (s doubleStage) made(node string, session, _ int64) error {
	if owner := s.Owner(node); owner != session {
		return fmt.Errorf("the owner of %s is %#x", node, owner)
	}
	return nil
}

func (s doubleStage) tree() (nodes []string) {
	for _, node := range s.Tree() {
		if s.Owner(node) != 0 {
			data, _ := s.Data(node)
			nodes = append(nodes, node+" "+stored(data))
		}
	}
	return nodes
}

func (s doubleStage) settle(reached func() bool) {
	synctest.Wait()
	if !reached() {
		<-time.After(30 * time.Second) // without a connection
		synctest.Wait()
		reached()
	}
}

// realStage is a part of a real server's tree, for one scene.
type realStage struct {
	raw           *zk.Conn
	servers, root string
}

func (s *realStage) connect(t *testing.T, options ...coordinator.Option) *coordinator.Coordinator {
	return ConnectReal(t, s.servers+s.root, options...)
}

func (s *realStage) tree() (nodes []string) {
	var walk func(node string)
	walk = func(node string) {
		names, _, err := s.raw.Children(s.root + node)
		if err != nil {
			return // the node is gone
		}
		for _, name := range names {
			child := path.Join("/", node, name)
			if data, stat, err := s.raw.Get(s.root + child); err == nil && stat.EphemeralOwner != 0 {
				nodes = append(nodes, child+" "+stored(data))
			}
			walk(child)
		}
	}
	walk("")
	return nodes
}

func (s *realStage) Children(dir string) []string {
	names, _, _ := s.raw.Children(s.root + dir)
	return names
}

func (s *realStage) Data(node string) ([]byte, bool) {
	data, _, err := s.raw.Get(s.root + node)
	return data, err == nil
}

func (s *realStage) made(node string, session, token int64) error {
	_, stat, err := s.raw.Get(s.root + node)
	if err == nil && (token != 0 && stat.Czxid != token || stat.EphemeralOwner != session) {
		return fmt.Errorf("the server has %+v", stat)
	}
	return err
}

func (s *realStage) Create(node string, data []byte) error {
	if dir := path.Dir(s.root + node); dir != "/" {
		if err := s.Create(strings.TrimPrefix(dir, s.root), nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err := s.raw.Create(s.root+node, data, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (s *realStage) SetData(node string, data []byte) error {
	_, err := s.raw.Set(s.root+node, data, -1)
	return err
}

func (s *realStage) Delete(node string) error { return s.raw.Delete(s.root+node, -1) }

func (s *realStage) settle(reached func() bool) {
	for range 6000 {
		if reached() {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
