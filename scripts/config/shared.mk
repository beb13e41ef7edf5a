# The library as a shared object: position-independent, and nothing seen from outside but g2l_*.
OPT      := -O3 -g
HARDEN   := $(filter-out -fPIE,$(HARDEN)) -fPIC -fvisibility=hidden -D_FORTIFY_SOURCE=2
