package load

import (
	"math"
	"math/rand/v2"
)

// maxExponent bounds the exponent of a Zipf law; with 10 nearly every request is for the first key.
const maxExponent = 10

// keys draws numbers from 0 to count-1.
type keys struct {
	random *rand.Rand
	count  uint64
	zipf   *zipf
}

func newKeys(random *rand.Rand, count uint64, exponent float64) *keys {
	k := &keys{random: random, count: count}
	if exponent > 0 {
		k.zipf = newZipf(random, count, exponent)
	}
	return k
}

func (k *keys) next() uint64 {
	if k.zipf != nil {
		return k.zipf.next()
	}
	return k.random.Uint64N(k.count)
}

// zipf draws k-1 with a probability proportional to 1/k^s, k from 1 to count, by rejection-inversion: Hörmann and
// Derflinger, Rejection-inversion to generate variates from monotone discrete distributions, ACM TOMACS 6 (1996),
// algorithm ZRI. It needs no table, so that the number of keys does not matter.
type zipf struct {
	random         *rand.Rand
	s, count       float64
	low, high, cut float64 // H(1.5)-1, H(count+0.5), the bound below which a draw is accepted at once
}

func newZipf(random *rand.Rand, count uint64, exponent float64) *zipf {
	z := &zipf{random: random, s: exponent, count: float64(count)}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(z.count + 0.5)
	z.cut = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

func (z *zipf) next() uint64 {
	for {
		u := z.high + z.random.Float64()*(z.low-z.high)
		x := z.inverse(u)
		k := math.Floor(math.Min(math.Max(x+0.5, 1), z.count))
		if k-x <= z.cut || u >= z.integral(k+0.5)-z.density(k) {
			return uint64(k) - 1
		}
	}
}

func (z *zipf) density(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is H(x) = (x^(1-s) - 1) / (1-s), log x for s = 1, written so that it is exact near s = 1.
func (z *zipf) integral(x float64) float64 {
	logarithm := math.Log(x)
	return ratio(math.Expm1, (1-z.s)*logarithm) * logarithm
}

func (z *zipf) inverse(u float64) float64 {
	t := math.Max(u*(1-z.s), -1)
	return math.Exp(ratio(math.Log1p, t) * u)
}

// ratio is f(x)/x, whose limit at 0 is 1 for both functions that it is used for.
func ratio(f func(float64) float64, x float64) float64 {
	if math.Abs(x) < 1e-12 {
		return 1
	}
	return f(x) / x
}
