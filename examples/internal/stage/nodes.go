package stage

import (
	"errors"
	"io"
	"log"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Ephemerals returns the paths below root, in any order, of the nodes that belong
// to a session: contenders and holders. It is asked with a client that is no part
// of the project, at the servers of a list without a chroot.
func Ephemerals(tb TB, servers, root string) []string {
	tb.Helper()
	conn, news, err := zk.Connect(strings.Split(servers, ","), 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	defer func() {
		conn.Close()
		for range news { // ends when the client's goroutines have
		}
	}()
	found, err := below(conn, root)
	if err != nil {
		tb.Fatalf("looking at %s: %v", root, err)
	}
	return found
}

// AwaitEphemerals returns when there are so many below root.
func AwaitEphemerals(tb TB, servers, root string, count int) {
	tb.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	begin := time.Now()
	for {
		found := Ephemerals(tb, servers, root)
		if len(found) == count {
			return
		}
		if time.Since(begin) > patience {
			tb.Fatalf("below %s are %v, want %d", root, found, count)
			return
		}
		<-ticker.C
	}
}

func below(conn *zk.Conn, path string) (found []string, _ error) {
	names, stat, err := conn.Children(path)
	switch {
	case errors.Is(err, zk.ErrNoNode): // it may go at any time
		return nil, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner != 0:
		return []string{path}, nil
	}
	for _, name := range names {
		more, err := below(conn, path+"/"+name)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}
