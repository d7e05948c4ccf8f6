// Package bridges tests the adapters of package bridge, and gocronlock, within the
// libraries for which they are made.
package bridges
