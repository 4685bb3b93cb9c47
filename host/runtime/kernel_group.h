// Kernels that compute several nodes in one call.
//
// On a device where a call costs more than the work of a small node, a kernel may take more nodes
// of its op: it derives from KernelGroup. A program looks for these nodes while it is compiled
// (node_groups.h).
#pragma once

#include "runtime/kernel.h"

namespace lamina {

class KernelGroup : public Kernel {
 public:
  // Adds a node, for which the backend chose the same KernelChoice. KernelArgs then have its inputs
  // after the inputs of the nodes before, and likewise its outputs. Returns false and changes
  // nothing if one call cannot compute it too. The nodes may be computed in any order: none reads
  // or overwrites memory that another one writes. [before the first run]
  virtual bool add(const NodeView& node) = 0;
};

}  // namespace lamina
