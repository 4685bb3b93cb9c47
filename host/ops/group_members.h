// The operands of linear_group: x, the weights, then the biases of the linears that have one.
#pragma once

#include <vector>

#include "graph/call.h"

namespace lamina::ops {

// The places of one linear's operands in the group.
struct GroupMember {
  int weight;
  int bias;  // -1: none
};

// REQUIRES: a call of linear_group.
std::vector<GroupMember> group_members(const Call& call);

inline const Type* bias_type(const NodeView& n, const GroupMember& member) {
  return member.bias < 0 ? nullptr : &n.type(member.bias);
}

}  // namespace lamina::ops
