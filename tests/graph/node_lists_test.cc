// The lists of a node: few ids inline, many on the heap; copies share attributes.
#include "graph/node_lists.h"

#include <gtest/gtest.h>

#include <numeric>

#include "graph/graph.h"

namespace lamina {
namespace {

ValueList first_ids(ValueId count) {
  ValueList out;
  for (ValueId id = 0; id < count; ++id) out.push_back(id);
  return out;
}

TEST(ValueList, HoldsFewIdsAndMany) {
  for (ValueId count : {0u, 1u, 4u, 5u, 6u, 7u, 100u}) {
    ValueList list = first_ids(count), copy = list;
    ASSERT_EQ(list.size(), count);
    EXPECT_EQ(list.empty(), count == 0);
    for (ValueId id = 0; id < count; ++id) EXPECT_EQ(list[id], id);
    EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0u), count * (count - 1) / 2);
    EXPECT_EQ(copy, list);
    if (count) {
      EXPECT_EQ(list.front(), 0u);
      EXPECT_EQ(list.back(), count - 1);
    }
    copy.push_back(7);
    EXPECT_NE(copy, list);
    EXPECT_EQ(list.size(), count);
  }
}

TEST(AttrList, CopiesShareAndChangesAreTheirOwn) {
  AttrList none, list({std::int64_t{3}, 0.5}), copy = list;
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(copy.data(), list.data());
  AttrList other = list.with(1, 0.25);
  EXPECT_EQ(std::get<double>(list[1]), 0.5);
  EXPECT_EQ(std::get<double>(other[1]), 0.25);
  EXPECT_FALSE(same_attrs(list, other));
  EXPECT_TRUE(same_attrs(list, other.with(1, 0.5)));
  EXPECT_FALSE(same_attrs(list, none));
}

TEST(AttrList, BodiesAreEqualByStructure) {
  auto body = [](std::int64_t size) {
    auto g = std::make_shared<Graph>();
    g->add_output("x", g->add_input("x", {DType::f32, {size}, {}}));
    return AttrList({std::shared_ptr<const Graph>(g)});
  };
  EXPECT_TRUE(same_attrs(body(3), body(3)));
  EXPECT_FALSE(same_attrs(body(3), body(4)));
}

}  // namespace
}  // namespace lamina
