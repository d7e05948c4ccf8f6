// Package bridges tests the adapters of package bridge, and gocronlock, in the libraries that they serve.
package bridges
