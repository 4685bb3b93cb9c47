#include "cli/explain/memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/shell/units.h"

namespace lamina::cli {
namespace {

constexpr int kBarColumns = 40;

std::string bytes(std::size_t n) { return bytes_text(static_cast<double>(n)); }

// '#' in the columns during which the block is in use.
std::string bar(const ArenaBlock& block, int num_nodes) {
  int steps = std::max(num_nodes, 1);
  auto column = [&](int node) { return std::min(node, steps - 1) * kBarColumns / steps; };
  std::string out(kBarColumns, '.');
  for (int c = column(block.first); c <= column(block.last); ++c)
    out[static_cast<std::size_t>(c)] = '#';
  return out;
}

std::string name_of(const ArenaBlock& block, const Graph& graph) {
  if (block.value == kNoValue && block.last == std::ssize(graph.nodes()))
    return "counters of kernels";
  const Node& node = graph.node(static_cast<NodeId>(block.first));
  std::string what = block.value == kNoValue
                         ? fmt::format("workspace of {}", node.op->name)
                         : fmt::format("{} {}", node.op->name, to_string(graph.type(block.value)));
  return node.origin && !node.origin->scope.empty()
             ? fmt::format("{}  {}", what, node.origin->scope)
             : what;
}

void append(std::string& out, const Program& program, int rows, const std::string& title,
            std::set<const Program*>& done) {
  std::vector<ArenaBlock> blocks = program.arena_blocks();
  int num_nodes = static_cast<int>(program.graph().nodes().size());
  out += fmt::format(
      "{}: {} nodes, {} blocks; arena {}, at least {} for any plan, {} if nothing "
      "were shared\n",
      title, num_nodes, blocks.size(), bytes(program.arena_bytes()),
      bytes(program.lower_bound_bytes()), bytes(program.unshared_bytes()));
  std::ranges::stable_sort(blocks, std::greater{}, &ArenaBlock::bytes);
  std::size_t shown = std::min(blocks.size(), static_cast<std::size_t>(rows));
  if (shown > 0)
    out += fmt::format("  {:{}} {:>10} {:>10}\n", "over the nodes, first to last", kBarColumns,
                       "size", "offset");
  for (std::size_t i = 0; i < shown; ++i)
    out +=
        fmt::format("  {} {:>10} {:>10}  {}\n", bar(blocks[i], num_nodes), bytes(blocks[i].bytes),
                    bytes(blocks[i].offset), name_of(blocks[i], program.graph()));
  if (shown < blocks.size()) {
    std::size_t rest = 0;
    for (std::size_t i = shown; i < blocks.size(); ++i) rest += blocks[i].bytes;
    out += fmt::format("  and {} smaller, {} together\n", blocks.size() - shown, bytes(rest));
  }
  for (const Program::Body& body : program.bodies())
    if (done.insert(body.program).second)
      append(out, *body.program, rows,
             fmt::format("body of the scan at node {}, {} times", body.node, body.times), done);
}

}  // namespace

std::string memory_picture(const Program& program, int rows) {
  std::string out;
  std::set<const Program*> done;
  append(out, program, rows, "program", done);
  return out;
}

}  // namespace lamina::cli
