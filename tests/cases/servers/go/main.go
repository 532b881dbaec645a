// A server that says what Go's runtime has, for a look by hand; Tailor does not ask it.
package main

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		limit := debug.SetMemoryLimit(-1)
		fmt.Fprintln(w, runtime.GOMAXPROCS(0), percent, limit, limit == math.MaxInt64)
	})
	panic(http.ListenAndServe(":8080", nil))
}
