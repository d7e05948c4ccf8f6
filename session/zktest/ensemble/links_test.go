package ensemble

import (
	"testing"

	"github.com/go-zookeeper/zk"
)

// A server that is cut off from its leader goes on answering reads from what it knows, writes nothing, and catches up
// when it is healed.
func TestLinksIsolate(t *testing.T) {
	links := NewLinks(t)
	e := Start(t, 3, links.Setting(), SyncLimit(60)) // it is a while until anybody closes a connection
	ctx := within(t)
	followers, err := e.Followers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := client(t, e.Addr(followers[0])), client(t, e.Addr(followers[0]))
	written(t, ctx, writer, "/node", "data")
	if _, _, err := reader.Get("/node"); err != nil {
		t.Fatal(err)
	}
	links.Isolate(followers[0])
	answered := make(chan error, 1)
	go func() {
		_, err := writer.Create("/isolated", nil, 0, zk.WorldACL(zk.PermAll))
		answered <- err
	}()
	written(t, ctx, client(t, e.Addr(followers[1])), "/others", "") // the rest has a quorum
	if found, _, err := reader.Exists("/others"); found || err != nil {
		t.Errorf("an isolated follower has heard of it: %v, %v", found, err)
	}
	if data, _, err := reader.Get("/node"); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	select {
	case err := <-answered:
		t.Errorf("an isolated follower answered a write: %v", err)
	default:
	}
	links.Heal(followers[0])
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("no answer after the healing")
	}
	err = poll(ctx, func() (bool, error) {
		found, _, err := reader.Exists("/others")
		return found && err == nil, nil
	})
	if err != nil {
		t.Errorf("it never heard of what had happened: %v", err)
	}
}
