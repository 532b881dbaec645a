#include "textflag.h"

// func prefetch(value *byte)
TEXT ·prefetch(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ value+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	RET
