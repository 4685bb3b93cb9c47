// Fuses the rotations of a layer's queries and keys with the writes to its caches.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// A cache_write becomes a rotate_write with the rotation of its rows, with the next cache_write to
// the same slots, and with the nearest other rotation by the same table. It is computed at the
// place of the last of them; nodes that read its results follow. A rotation that it repeats is left
// to remove_dead_code.
Graph fuse_cache_writes(Graph graph);

}  // namespace lamina::passes
