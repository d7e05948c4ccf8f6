// Package bridges tests the adapters of package bridge, and gocronlock, with the
// libraries that they are made for.
package bridges
