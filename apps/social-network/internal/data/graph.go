package data

import (
	"math/rand/v2"
	"slices"
)

// Graph is who follows whom; users are 1..N, index 0 is empty, and each list is in ascending order.
type Graph struct {
	Followers [][]int32
	Followees [][]int32
}

// attractiveness is the weight that a user has before anybody follows it.  In the linear model with a shift
// (Dorogovtsev, Mendes, Samukhin, PRL 85, 2000) the exponent of the tail is 2 + attractiveness/mean: 2.5 here,
// inside the 2..3 that social networks show.
const attractiveness = 10

// follows is the mean number of users that one user follows.
const follows = 20

// NewGraph grows a graph of n users by preferential attachment: each newcomer follows users that are there already,
// chosen in proportion to their followers plus attractiveness.  How many it follows varies between half and one and
// a half times the mean.  Which user id arrives when is a random permutation, so that ids say nothing of popularity.
func NewGraph(seed uint64, n int) Graph {
	rng := rand.New(rand.NewPCG(seed, 1))
	order := rng.Perm(n)
	graph := Graph{Followers: make([][]int32, n+1), Followees: make([][]int32, n+1)}
	// urn holds each arrived user once per unit of weight: drawing from it is drawing in proportion to the weight.
	var urn []int32
	for arrived, position := range order {
		newcomer := int32(position + 1)
		wanted := min(follows/2+rng.IntN(follows+1), arrived)
		chosen := make(map[int32]bool, wanted)
		for len(chosen) < wanted {
			followee := urn[rng.IntN(len(urn))]
			if chosen[followee] {
				continue
			}
			chosen[followee] = true
			graph.Followees[newcomer] = append(graph.Followees[newcomer], followee)
			graph.Followers[followee] = append(graph.Followers[followee], newcomer)
		}
		urn = append(urn, graph.Followees[newcomer]...)
		for range attractiveness {
			urn = append(urn, newcomer)
		}
	}
	for user := range graph.Followers {
		slices.Sort(graph.Followers[user])
		slices.Sort(graph.Followees[user])
	}
	// The first to arrive found nobody to follow; a user without followees would have an empty home timeline.
	for user := 1; user <= n; user++ {
		if len(graph.Followees[user]) == 0 && n > 1 {
			followee := int32(user%n + 1)
			graph.Followees[user] = append(graph.Followees[user], followee)
			graph.Followers[followee] = append(graph.Followers[followee], int32(user))
			slices.Sort(graph.Followers[followee])
		}
	}
	return graph
}
