// Command hotcounter increments one counter very often, from two processes of 64 goroutines each, under a lock.
//
// Without Cached, each increment asks the servers for the lock. With Cached, the process that has the lock keeps its node, and its
// goroutines hand the lock on without a request. After a bounded number of handoffs the other process gets it.
//
//	go run ./examples/hotcounter                     on a server inside the program
//	go run ./examples/hotcounter -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/hotcounter -increments 100000  with more increments
//
// The counter is a file. It stores the fencing token and the turn of the latest write's Grant: a pair that grows from grant to grant.
// stage.go has the two processes, and counts their requests.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zkgrant/zkgrant/events"
)

const (
	plainLock  = "/zkgrant/hotcounter/plain"
	cachedLock = "/zkgrant/hotcounter/cached"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// counter is one process's view of a file with a number. Only the holder of the lock calls its methods.
type counter struct{ file *os.File }

// openCounter makes the file if there is none.
func openCounter(name string) (*counter, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	return &counter{file}, err
}

// content is the file's content.
type content struct {
	Value int64
	Token int64  // of the latest write
	Turn  uint64 // of the latest write
}

// before reports whether the latest write was under an earlier Grant.
func (c content) before(g events.Grant) bool {
	return c.Token < g.Token || c.Token == g.Token && c.Turn < g.Turn
}

// increment adds one, unless the Grant is not later than that of the latest write. Then two processes believe that they hold the lock, or one
// of them writes late. A database does the same in one statement: see docs/caching.md.
func (c *counter) increment(g events.Grant) error {
	now, err := c.read()
	if err != nil {
		return err
	}
	if !now.before(g) {
		return fmt.Errorf("token %d, turn %d is refused: token %d, turn %d has been here", g.Token, g.Turn, now.Token, now.Turn)
	}
	var buffer [24]byte
	if _, err := binary.Encode(buffer[:], binary.BigEndian, content{now.Value + 1, g.Token, g.Turn}); err != nil {
		return err
	}
	_, err = c.file.WriteAt(buffer[:], 0)
	return err
}

// read returns the content; zero if the file is empty.
func (c *counter) read() (now content, _ error) {
	var buffer [24]byte
	switch n, err := c.file.ReadAt(buffer[:], 0); {
	case n == 0 && errors.Is(err, io.EOF):
		return now, nil
	case n < len(buffer):
		return now, err
	}
	_, err := binary.Decode(buffer[:], binary.BigEndian, &now)
	return now, err
}
