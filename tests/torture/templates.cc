// Templates that need too many resources, on stacks of every size that the program allows: each
// renders or is refused, within the memory that docs/chat.md states.
#include <fmt/format.h>

#include "torture/judge.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace {

// For the program's code and libraries, 512 MiB of values, and the printed text.
constexpr std::uint64_t kMemoryBytes = std::uint64_t{3} << 29;

std::string any_size(Random& random) {
  static const std::vector<std::string> sizes = {
      "0",        "1",       "-1",           "1000",        "99999",
      "1048577",  "5000000", "16777216",     "2**28",       "2**31",
      "2**61",    "2**62",   "2**63",        "(2**63 - 1)", "-(2**63)",
      "2**64",    "2**125",  "2**126",       "-2**126",     "(2**126 + 1)",
      "10 ** 30", "3000000", "(2**126 // 4)"};
  return random.pick(sizes);
}

// {0} and {1} are sizes.
std::string any_expression(Random& random) {
  static const std::vector<std::string> forms = {
      "'aaaa' * {0}",
      "[1, 2, 3, 4] * {0}",
      "(1, 'x') * {0}",
      "('a' * {0}) | list | sort | unique | list | length",
      "('a' * {0}).replace('a', 'b' * {1}) | length",
      "('a b' * {0}).split() | length",
      "('a' * {1}).join('x' * {0}) | length",
      "range({0}, {1}) | list | length",
      "range({0}, {1}, 2**61)[::{1}]",
      "('x' * 99)[{0}:{1}:{0}]",
      "'x'.center({0}) | length",
      "'\t'.expandtabs({0}) | length",
      "'x'.zfill({0}) | length",
      "'%*d' % ({0}, 1)",
      "'%.*f' % ({0}, 1.5)",
      "('x\n' * {1}) | indent({0}) | length",
      "[[1], [2]] | tojson(indent={0}) | length",
      "[1] | batch({0}, 0) | list | length",
      "[1] | slice({0}, 0) | list | length",
      "'x y' | truncate({0}, leeway={1})",
      "('x y ' * {0}) | wordwrap({1}) | length",
      "{0} ** {1}",
      "{0} // {1}",
      "{0} % {1}",
      "1.5 | round({0}, 'ceil')",
      "dict.fromkeys(range({0}), 'x' * {1}) | length",
      "namespace(dict.fromkeys('ab' * {0}))",
  };
  return fmt::format(fmt::runtime(random.pick(forms)), any_size(random), any_size(random));
}

std::string any_template(Random& random) {
  static const std::vector<std::string> recursions = {
      "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
      "{% macro m(n) %}{% call m(n) %}x{% endcall %}{% endmacro %}{{ m(1) }}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% set n = namespace(l=[]) %}{% for i in range(190) %}{% set n.l = [n.l] %}{% endfor %}"
      "{{ n.l }}{{ n.l | tojson }}{{ n.l == [n.l] }}",
  };
  if (random.chance(0.3)) return random.pick(recursions);
  if (random.chance(0.1)) {
    const std::size_t depth = random.below(250);
    return "{{ " + std::string(depth, '[') + std::string(depth, ']') + " }}";
  }
  return "{{ " + any_expression(random) + " }}";
}

void hostile_template(Case& c) {
  const std::string file = c.folder + "/t.jinja", context = c.folder + "/c.json";
  const std::string source = any_template(c.random);
  write_bytes(file, source);
  write_bytes(context, "{}");
  const std::uint64_t stack_kib = 256 + c.random.below(800);
  Launch launch = command(c, {});
  launch.words = {
      "/bin/bash",
      "-c",
      fmt::format("ulimit -s {}; exec \"$0\" template \"$1\" --context \"$2\"", stack_kib),
      c.place.program,
      file,
      context};
  launch.cpu_seconds = 30;
  launch.memory_bytes = kMemoryBytes;
  expect_end(run(std::move(launch)), {0, 2},
             fmt::format("template `{}` with a stack of {} KiB", source, stack_kib));
}

}  // namespace

std::vector<Kind> template_kinds() {
  return {{"templates", "sizes, products and depths of chat templates, with small stacks", 0.5,
           hostile_template}};
}

}  // namespace lamina::torture
