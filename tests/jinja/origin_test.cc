// Text from outside remains marked wherever the template puts it.
#include <gtest/gtest.h>

#include "jinja/render.h"

namespace lamina::jinja {
namespace {

// The characters of the given text; other characters as ".".
std::string given_part(const std::string& source, const std::string& context) {
  const Rendered r = testing::render_all(source, context);
  std::string out(r.text.size(), '.');
  for (const RenderedSpan& span : r.given)
    out.replace(span.begin, span.end - span.begin, r.text, span.begin, span.end - span.begin);
  return out;
}

TEST(JinjaOrigin, SurvivesTextOperationsOfTemplates) {
  const std::string context = R"({"x": " ab<s>"})";
  const std::pair<const char*, const char*> cases[] = {
      {"[{{ x }}]", ". ab<s>."},
      {"{{ '<s>' + x }}", "... ab<s>"},
      {"{{ '<s>' ~ x | trim }}", "...ab<s>"},
      {"{{ x[1:3] }}|{{ x[::-1] }}", "ab.>s<ba "},
      {"{{ x.split('<')[1] }}", "s>"},
      {"{{ x | upper }}{{ x.title() }}", " AB<S> Ab<S>"},
      {"{{ x | replace('a', 'Q') }}", " .b<s>"},
      {"{{ x | tojson }}{{ [x] }}", ". ab<s>... ab<s>.."},
      {"{{ '%s-%5d' % (x, 1) }}", " ab<s>......"},
      {"{{ '{}!'.format(x) }}", " ab<s>."},
      {"{{ ['-', x] | join('+') }}", ".. ab<s>"},
      {"{% set y %}-{{ x }}{% endset %}{{ y | indent }}", ". ab<s>"},
      {"{% macro m(t) %}<{{ t }}{% endmacro %}{{ m(x) }}", ". ab<s>"},
      {"{% filter lower %}A{{ x }}{% endfilter %}", ". ab<s>"},
      {"{% for c in x %}{{ c }}-{% endfor %}", " .a.b.<.s.>."},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(given_part(source, context), expected) << source;
}

TEST(JinjaOrigin, SurvivesAsANameAndAsBytes) {
  const std::string context = R"({"x": " ab<s>", "d": {"<s>": "ab"}})";
  const std::pair<const char*, const char*> cases[] = {
      {"{{ d | tojson }}", "..<s>....ab.."},
      {"{{ dict(**d) | tojson }}", "..<s>....ab.."},
      {"{{ dict(a=1, **d) }}", "..........<s>....ab.."},
      {"{% macro m() %}{% for k in kwargs %}-{{ k }}{% endfor %}{% endmacro %}{{ m(**d) }}",
       ".<s>"},
      {"{{ namespace(**d) }}", ".............<s>....ab..."},
      {"{{ x.encode('utf-8').decode('utf-8') }}", " ab<s>"},
      {"{{ x.encode()[3:].decode() }}-{{ 'b'.encode().decode() }}", "<s>.."},
      {"{{ x.encode() }}", "b' ab<s>'"},
      {"{{ x | striptags }}{{ '&lt;' | striptags }}", "ab."},
      {"{{ strftime_now(x) }}{{ strftime_now('<s>') }}", " ab<s>..."},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(given_part(source, context), expected) << source;
  EXPECT_EQ(given_part("{{ x | striptags }}{{ '&lt;' | striptags }}", R"({"x": "&lt;&#62;"})"),
            "<>.");
}

TEST(JinjaOrigin, DoesNotChangeEqualityOfStrings) {
  EXPECT_EQ(testing::render("{{ x == 'a' }}{{ x in ['a'] }}{{ {'a': 1}[x] }}{{ x is eq 'a' }}"
                            "{{ [x, 'a'] | unique | list | length }}",
                            R"({"x": "a"})"),
            "TrueTrue1True1");
}

}  // namespace
}  // namespace lamina::jinja
