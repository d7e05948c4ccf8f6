// Package bridge fits locks into the interfaces that other libraries call. It imports none of them.
package bridge
