package events_test

import (
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

func ExampleParseName() {
	for _, child := range []string{"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007", "x-72057594037927936-0000000008", "config"} {
		name, ok := events.ParseName(child)
		fmt.Println(ok, name.Kind, name.Seq)
	}
	// Output:
	// true lock 7
	// true WriteLock 8
	// false kind 0 0
}

func ExampleName_Check() {
	name, _ := events.ParseName("lock-2147483647") // servers assign this number again and again
	fmt.Println(errors.Is(name.Check(), events.ErrSequenceEnd))
	// Output: true
}

func ExampleReason() {
	lost := events.Lost{Path: "/locks/a", Reason: events.ReasonNodeRemoved}
	fmt.Println(lost.Path, lost.Reason)
	// Output: /locks/a node removed
}
