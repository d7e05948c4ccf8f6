// Calibrate runs a fixed amount of work on all processors and prints how many milliseconds that took. `make test` compares
// its own time with it, so that load on the machine fails no test.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// rounds is chosen so that the work takes 1.2 seconds on an idle machine of two cores.
const rounds = 200_000

func main() {
	began := time.Now()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(work)
	}
	all.Wait()
	fmt.Fprintln(os.Stdout, time.Since(began).Milliseconds())
}

// work does what tests do most: compute, allocate, and hand values from one goroutine to another.
func work() {
	there, back := make(chan []byte), make(chan [sha256.Size]byte)
	go func() {
		defer close(back)
		for block := range there {
			back <- sha256.Sum256(block)
		}
	}()
	for range rounds {
		there <- make([]byte, 4096)
		<-back
	}
	close(there)
	<-back
}
