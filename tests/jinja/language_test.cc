// Surprising parts of the language. The golden tests compare the whole language with Jinja2.
#include <gtest/gtest.h>

#include "jinja/render.h"
#include "support/expect_error.h"

namespace lamina::jinja {
namespace {

using lamina::testing::render;

TEST(Jinja, Example) {
  const Template t = Template::parse("{{ bos }}{{ user }}", "chat_template.jinja");
  const Rendered r = t.render({{"bos", trusted("<s>")}, {"user", given("hi <s>")}}, {});
  EXPECT_EQ(r.text, "<s>hi <s>");
  EXPECT_EQ(r.given, (std::vector<RenderedSpan>{{3, 9}}));
}

TEST(Jinja, ValuesPrintAsPythonPrintsThem) {
  EXPECT_EQ(render("{{ [1, 1.0, true, none, 'it\\'s', 1e22, {'a': (1,)}] }}"),
            "[1, 1.0, True, None, \"it's\", 1e+22, {'a': (1,)}]");
  EXPECT_EQ(render("{{ 123456789012345678901234567890 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 1 / 4 }}"),
            "123456789012345678901234567890 -4 2 0.25");
}

TEST(Jinja, UndefinedIsEmptyUntilSomethingIsAskedOfIt) {
  EXPECT_EQ(render("[{{ x }}{{ x | length }}{% for y in x %}.{% endfor %}{{ 'a' in x }}]"),
            "[0False]");
  EXPECT_EQ(render("{{ x.y is defined }}", R"({"x": {}})"), "False");
}

TEST(Jinja, BlocksTakeTheirNewlineAndIndentExpressionsDoNot) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("  {{ 1 }}\n{{ 2 }}\n\n"), "  1\n2\n");
  EXPECT_EQ(render("a  {%+ if true %}b{% endif +%}\nc"), "a  b\nc");
}

TEST(Jinja, OnlyAssignmentsToNamespacesOutliveLoops) {
  EXPECT_EQ(render("{% set x = 1 %}{% set n = namespace(v=1) %}{% for i in [2, 3] %}"
                   "{% set x = x + i %}{% set n.v = n.v + i %}{% endfor %}{{ x }} {{ n.v }}"),
            "1 6");
}

TEST(Jinja, SumsLeaveTheirPartsAsTheyWere) {
  EXPECT_EQ(render("{% set a = 'x' %}{% set b = a + 'y' %}{{ b + a + '|' + a + '|' + b }}"),
            "xyx|x|xy");
  EXPECT_EQ(render("{% set d = {'k': 'x' + 'y'} %}{{ d.k + 'z' }}{{ d['k'] + d.k }}"), "xyzxyxy");
  EXPECT_EQ(render("{% for i in range(2) %}{{ 'a' + 'b' + ('c' if i else 'd') }}{% endfor %}"),
            "abdabc");
  EXPECT_EQ(render("{% set a = [1] %}{{ [a, a, [2]] | sum(start=a) }}{{ a }}"), "[1, 1, 1, 2][1]");
}

TEST(Jinja, AttributesLookForMethodsFirstAndItemsForKeysFirst) {
  EXPECT_EQ(render("{{ a['items'] }} {{ a.items() | list }}", R"({"a": {"items": 5}})"),
            "5 [('items', 5)]");
}

TEST(Jinja, LoopsHaveALength) {
  EXPECT_EQ(render("{% for i in [1, 2, 3] if i > 1 %}{{ loop | length }}{{ loop | count }} "
                   "{% endfor %}"),
            "22 22 ");
}

TEST(Jinja, LoopIsAVariableLikeOthersOutsideOfLoops) {
  EXPECT_EQ(render("{% set loop = 1 %}{{ loop }}{% for a in [1] %}{{ loop.index0 }}{% endfor %}"
                   "{{ loop }}"),
            "101");
  EXPECT_EQ(render("{% for a in [1] %}{% with loop = 2 %}{{ loop }}{% endwith %}{% endfor %}"),
            "2");
}

TEST(Jinja, ElseOfALoopRunsUnlessAnIterationReachesItsEnd) {
  EXPECT_EQ(render("{% for i in [] %}x{% else %}E{% endfor %}"), "E");
  EXPECT_EQ(render("{% for i in [1] %}x{% continue %}{% else %}E{% endfor %}"), "xE");
  EXPECT_EQ(render("{% for i in [1] %}x{% break %}{% else %}E{% endfor %}"), "xE");
  EXPECT_EQ(render("{% for i in [1, 2] %}{{ i }}{% if i == 2 %}{% break %}{% endif %}"
                   "{% else %}E{% endfor %}"),
            "12");
  EXPECT_EQ(render("{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
                   "{% else %}E{% endfor %}"),
            "2");
}

TEST(Jinja, FiltersOfLoopsSeeChangesByTheBody) {
  EXPECT_EQ(render("{% set n = namespace(seen=0) %}{% for i in [1, 2, 3] if n.seen < 2 %}"
                   "{{ i }}{% set n.seen = n.seen + 1 %}{% endfor %}"),
            "12");
}

TEST(Jinja, GeneratorsAreReadOnceAndHaveNoLength) {
  EXPECT_EQ(render("{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}"
                   "{{ 1 if g }}"),
            "['1', '2'][]1");
}

TEST(Jinja, ElementsOfGeneratorsAreComputedWhenTheyAreRead) {
  const std::string messages =
      R"({"messages": [{"role": "a", "content": {"text": "hi"}}, {"role": "b"}]})";
  EXPECT_EQ(render("{{ messages | map(attribute='content.text') | first }}", messages), "hi");
  EXPECT_EQ(render("{% for t in messages | map(attribute='content.text') %}{{ t }}{% break %}"
                   "{% endfor %}",
                   messages),
            "hi");
  EXPECT_EQ(render("{{ (messages | selectattr('content.text') | first).role }}", messages), "a");
  EXPECT_EQ(render("{% set g = ['a', 1] | map('abs') %}ok"), "ok");
  EXPECT_EQ(render("{{ [1, 1, []] | unique | first }}"), "1");
  EXPECT_ERROR_SAYS(render("{{ messages | map(attribute='content.text') | list }}", messages),
                    ExitCode::usage, "'dict object' has no attribute 'content'");
}

TEST(Jinja, GeneratorsKeepTheElementsAfterTheLastThatWasRead) {
  EXPECT_EQ(render("{% set g = [1, 2, 3] | map('int') %}{{ g | first }}{{ g | list }}"), "1[2, 3]");
  EXPECT_EQ(render("{% set g = [1, 2, 3] | select %}{{ 2 in g }}{{ g | list }}"), "True[3]");
  EXPECT_EQ(render("{% set g = [1, 2, 3] | map('int') %}{% for i in g %}{% break %}{% endfor %}"
                   "{{ g | list }}"),
            "[2, 3]");
  EXPECT_EQ(render("{% set g = [1, 2, 3] | map('int') %}{% for i in g %}{{ loop.last }}{% break %}"
                   "{% endfor %}{{ g | list }}"),
            "False[3]");
  EXPECT_EQ(render("{% set g = {'a': 1, 'b': 2} | items %}{{ g | first }}{{ g | list }}"),
            "('a', 1)[('b', 2)]");
  EXPECT_EQ(render("{% set g = [1, 2] | map('int') %}{% set h = g | map('string') %}"
                   "{{ g | first }}{{ h | list }}"),
            "1['2']");
}

TEST(Jinja, GeneratorsThatReadThemselvesAreErrors) {
  EXPECT_ERROR_SAYS(render("{% set n = namespace() %}{% set n.g = [n] | map(attribute='g') | "
                           "map('list') %}{{ n.g | list }}"),
                    ExitCode::usage, "generator already executing");
}

TEST(Jinja, DictsAreMadeFromKeys) {
  EXPECT_EQ(render("{{ dict.fromkeys(['a', 'b', 'a'], 0) }}"), "{'a': 0, 'b': 0}");
  EXPECT_EQ(render("{{ dict.fromkeys('ab') }}"), "{'a': None, 'b': None}");
  EXPECT_EQ(render("{{ {}.fromkeys(['q']) }}{{ {'a': 1}.fromkeys('bc', 2) }}"),
            "{'q': None}{'b': 2, 'c': 2}");
  EXPECT_EQ(render("{{ dict.other is defined }}{{ range.fromkeys is defined }}"), "FalseFalse");
}

TEST(Jinja, NamespacesRefuseNamesWithAnUnderscore) {
  for (const char* source : {"{{ namespace(_x=1) }}", "{{ namespace({'_x': 1}) }}",
                             "{% set n = namespace() %}{% set n._x = 1 %}"})
    EXPECT_ERROR_SAYS(render(source), ExitCode::usage,
                      "the attribute '_x' of a namespace begins with an underscore; rename it");
}

TEST(Jinja, BlocksSeeOnlyTheVariablesAtTheTopUnlessScoped) {
  EXPECT_EQ(render("{% set x = 0 %}{% for i in [1, 2] %}{% set x = 5 %}"
                   "{% block a %}[{{ i }}{{ x }}]{% endblock %}{% endfor %}"),
            "[0][0]");
  EXPECT_EQ(render("{% for i in [1, 2] %}{% block a scoped %}[{{ i }}]{% endblock %}{% endfor %}"),
            "[1][2]");
  EXPECT_EQ(render("{% if 1 %}{% set y = 3 %}{% endif %}"
                   "{% block a %}{{ y }}{% set y = 4 %}{{ y }}{% endblock %}{{ y }}"),
            "343");
  EXPECT_EQ(render("{% block a %}{% set q = 1 %}{% block b %}<{{ q }}>{% endblock %}"
                   "{% block c scoped %}<{{ q }}>{% endblock %}{% endblock %}"),
            "<><1>");
}

TEST(Jinja, SelfHasTheBlocks) {
  EXPECT_EQ(render("{% block a %}B{% endblock %}{{ self.a() }}|{{ self.x is defined }}"),
            "BB|False");
  EXPECT_EQ(render("{{ self is defined }}[{{ self.b }}]"), "True[]");
  EXPECT_EQ(render("{% block a %}B{{ x }}{% endblock %}{% set x = 1 %}{{ self.a() }}"
                   "{% for i in [1] %}{% set x = 3 %}{{ self.a() }}{% endfor %}"),
            "BB1B1");
  EXPECT_EQ(render("{% for x in [1] %}{% block a scoped %}[{{ x }}]{% endblock %}{% endfor %}"
                   "{{ self.a() }}"),
            "[1][]");
  EXPECT_EQ(render("{% macro m() %}{{ self.a() }}{% endmacro %}"
                   "{% block a %}A{% endblock %}{{ m() }}"),
            "AA");
  EXPECT_EQ(render("{% set self = 3 %}{{ self }}"), "3");
  EXPECT_ERROR_SAYS(render("{% block a %}{{ self.a() }}{% endblock %}"), ExitCode::usage,
                    "evaluations are inside each other");
}

TEST(Jinja, MacrosSeeTheDefinitionsAtTheCall) {
  EXPECT_EQ(render("{% macro m(a, b='d') %}{{ a }}{{ b }}{{ late }}{% endmacro %}"
                   "{% set late = '!' %}{{ m('x') }}{{ m(b=1, a=2) }}"),
            "xd!21!");
}

TEST(Jinja, DefaultsOfMacrosSeeTheParametersNotTheVariablesAround) {
  EXPECT_EQ(render("{% set a = 5 %}{% macro m(a=a) %}[{{ a }}]{% endmacro %}{{ m() }}{{ m(1) }}"),
            "[][1]");
  EXPECT_EQ(render("{% set b = 5 %}{% macro m(a=b, b=2) %}[{{ a }}{{ b }}]{% endmacro %}"
                   "{{ m() }}{{ m(b=3) }}"),
            "[2][33]");
  EXPECT_EQ(render("{% set b = 5 %}{% macro m(b, a=b) %}[{{ a }}]{% endmacro %}{{ m(1) }}"), "[1]");
}

TEST(Jinja, ParametersGivenTwiceAreInKwargs) {
  EXPECT_EQ(render("{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}"),
            "1{'a': 2}");
  EXPECT_ERROR_SAYS(render("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}"), ExitCode::usage,
                    "macro 'm' got two values for its argument 'a'");
}

TEST(Jinja, ToJsonWritesTheSameAsPython) {
  EXPECT_EQ(render("{{ v | tojson }}", R"({"v": {"b": 1.0, "a": ["é\n", null]}})"),
            R"({"b": 1.0, "a": ["é\n", null]})");
  EXPECT_EQ(render("{{ {'a': [], 'b': [1]} | tojson(indent=2) }}"),
            "{\n  \"a\": [],\n  \"b\": [\n    1\n  ]\n}");
}

TEST(Jinja, IntegersOfJsonHave127Bits) {
  EXPECT_EQ(
      render("{{ v }}", R"({"v": [18446744073709551616, -123456789012345678901234567890, -0]})"),
      "[18446744073709551616, -123456789012345678901234567890, 0]");
  EXPECT_EQ(render("{{ v + 1 }} {{ v | tojson }} {{ v is integer }}",
                   R"({"v": 170141183460469231731687303715884105726})"),
            "170141183460469231731687303715884105727 170141183460469231731687303715884105726 True");
  EXPECT_EQ(render("{{ v }}", R"({"v": 1e20})"), "1e+20");
  EXPECT_ERROR_SAYS(render("{{ v }}", R"({"v": [170141183460469231731687303715884105728]})"),
                    ExitCode::usage,
                    "context.json:1: 'v[0]' must be an integer of at most 127 bits, got "
                    "170141183460469231731687303715884105728");
  EXPECT_EQ(render("{{ v }}", R"({"v": -170141183460469231731687303715884105727})"),
            "-170141183460469231731687303715884105727");
  EXPECT_ERROR_SAYS(render("{{ v }}", R"({"v": -170141183460469231731687303715884105728})"),
                    ExitCode::usage,
                    "context.json:1: 'v' must be an integer of at most 127 bits, got "
                    "-170141183460469231731687303715884105728");
}

TEST(Jinja, NumbersMayHaveDigitsOfAllScripts) {
  EXPECT_EQ(render("{{ '\uff11\uff12' | int }} {{ '-\u0661\u0662' | int }} "
                   "{{ '\uff11.\uff15' | float }} {{ '\U0001d7cf_\U0001d7d8' | int }} "
                   "{{ '0xf\uff11' | int(0, 16) }}"),
            "12 -12 1.5 10 241");
  EXPECT_EQ(render("{{ '\u00b2' | int(7) }} {{ '\u2460' | float(7) }}"), "7 7");
}

TEST(Jinja, CharactersAreTranslatedByTables) {
  EXPECT_EQ(render("{{ 'abc'.translate({97: 'x'}) }} "
                   "{{ 'abc'.translate({97: none, 98: 'yy', 99: 100}) }}"),
            "xbc yyd");
  EXPECT_EQ(render("{{ ''.maketrans('ab', 'xy', 'c') }} {{ ''.maketrans({'a': 1, 98: none}) }}"),
            "{97: 120, 98: 121, 99: None} {97: 1, 98: None}");
  EXPECT_EQ(render("{{ 'abcd'.translate('abc'.maketrans('ab', 'xy', 'c')) }}"), "xyd");
  EXPECT_ERROR_SAYS(render("{{ ''.maketrans('ab', 'x') }}"), ExitCode::usage,
                    "the first two maketrans arguments must have equal length");
  EXPECT_ERROR_SAYS(render("{{ 'a'.translate({97: 1.5}) }}"), ExitCode::usage,
                    "character mapping must return integer, None or str");
}

TEST(Jinja, FormatsAreAsInPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"'{:<05}|{:^05}|{:>05}|{:05}|{:x<05}'.format(7, 7, 7, -7, 7)",
       "70000|00700|00007|-0007|7xxxx"},
      {"'{:<05}|{:^05}|{:>05}|{:05}'.format('a', 'a', 'a', 'a')", "a0000|00a00|0000a|a0000"},
      {"'{!a}|{!r}|{!a}'.format('\u00e9', '\u00e9', ['\u20ac'])", "'\\xe9'|'\u00e9'|['\\u20ac']"},
      {"'%a|%5a|%.3a' % ('\u00e9\U0001f600', 'x', 'abc')", "'\\xe9\\U0001f600'|  'x'|'ab"},
      {"'%#.0f|%#g|%#.3g|%#x|%#.0e' % (2.5, 1.0, 2, 255, 3.0)", "2.|1.00000|2.00|0xff|3.e+00"},
      {"'{:#.0f}|{:#g}|{:#.7g}|{:#G}|{:#n}|{:#}|{:#.3}|{:#.0%}'"
       ".format(2.5, 0.0, 1234567.0, 1e10, 1.5, 2.0, 2.0, 0.5)",
       "2.|0.00000|1234567.|1.00000E+10|1.50000|2.0|2.00|50.%"},
      {"'{:.3}|{:.2}|{:.0e}|{:F}|{:n}|{:n}|{:_x}'"
       ".format(123.0, 1.0, 3.0, 'inf' | float, 1234567, 1234.5, 1234567)",
       "1.23e+02|1.0|3e+00|INF|1234567|1234.5|12_d687"},
      {"'{:5c}|{:<5c}|{:^5c}|{:05c}|{:c}'.format(65, 65, 65, 65, 8364)",
       "    A|A    |  A  |0000A|\u20ac"},
      {"'{:{}} {}'.format('a', 3, 'b')", "a   b"},
      {"'{:#010x}|{:#06b}|{:+#07o}|{:*=#8x}'.format(255, 5, 8, 255)",
       "0x000000ff|0b0101|+0o0010|0x****ff"},
      {"'{:010,}|{:08,}|{:012,.1f}|{:#012_x}|{:0=+9,}|{:07}'"
       ".format(1234, 1234, 1234.5, 255, -1234, 'inf' | float)",
       "00,001,234|0,001,234|00,001,234.5|0x0_0000_00ff|-0,001,234|0000inf"},
      {"'%#08x|%#.6x|%#8x|%08d|%-8d|%+#09x' % (255, 255, 255, -5, 5, 255)",
       "0x0000ff|0x0000ff|    0xff|-0000005|5       |+0x0000ff"},
      {"'{:010,}|{:010,}|{:012,.2f}'.format('inf' | float, 'nan' | float, '-inf' | float)",
       "0000000inf|0000000nan|-00000000inf"},
      {"'{:#}|{:#}|{:#}|{:#}|{:#010,}|{:#}'"
       ".format(1e300, 1e-7, 1.5e300, 3.0, 1e16, 'inf' | float)",
       "1.e+300|1.e-07|1.5e+300|3.0|0,001.e+16|inf"},
      {"'{0[additional_properties_x]}'.format({'additional_properties_x': 3})", "3"},
  };
  for (const auto& [source, text] : cases)
    EXPECT_EQ(render(std::string("{{ ") + source + " }}"), text) << source;
  const std::pair<const char*, const char*> refused[] = {
      {"'{} {0}'.format(1)", "cannot switch from manual field specification to automatic"},
      {"'{0} {}'.format(1)", "cannot switch from manual field specification to automatic"},
      {"'{:#s}'.format('a')", "Alternate form (#) not allowed in string format specifier"},
      {"'{:.2c}'.format(65)", "Precision not allowed in integer format specifier"},
      {"'{:^+c}'.format(65)", "Sign not allowed with integer format specifier 'c'"},
      {"'{:#c}'.format(65)", "Alternate form (#) not allowed with integer format specifier 'c'"},
      {"'{:,c}'.format(65)", "Cannot specify ',' with 'c'"},
      {"'{:,x}'.format(5)", "Cannot specify ',' with 'x'"},
      {"'{:c}'.format(1114112)", "%c arg not in range(0x110000)"},
  };
  for (const auto& [source, says] : refused)
    EXPECT_ERROR_SAYS(render(std::string("{{ ") + source + " }}"), ExitCode::usage, says);
}

TEST(Jinja, NumbersAreComputedAsInPython) {
  EXPECT_EQ(render("{{ -4.0 % 2.0 }} {{ 4.0 % -2.0 }} {{ -1.0 // -2.0 }} {{ 1.0 // -1e999 }} "
                   "{{ -7.5 // 2 }} {{ -7.5 % 2 }}"),
            "0.0 -0.0 0.0 -1.0 -4.0 0.5");
  EXPECT_EQ(render("{{ 9007199254740993 == 9007199254740992.0 }} "
                   "{{ 9007199254740993 > 9007199254740992.0 }} "
                   "{{ 9007199254740993 <= 9007199254740992.0 }} {{ 1 < 1e999 }} {{ -1 > -1e999 }} "
                   "{{ 2 > 1.5 }} {{ -2 < -1.5 }} {{ 2 == 2.0 }} {{ 1.5 < 2 }} {{ 1 <= nan }}",
                   R"({"nan": 0})"),
            "False True False True True True True True True False");
  EXPECT_EQ(render("{% set nan = 'nan' | float %}{{ 1 <= nan }} {{ nan >= 1 }} {{ nan == nan }}"),
            "False False False");
  EXPECT_EQ(render("{{ 123456789012345678 / 1000 }} {{ 9007199254740995 / 5 }}"),
            "123456789012345.67 1801439850948199.0");
  // Quotients near the middle of two doubles: a rounding to more bits first gives the other one.
  EXPECT_EQ(render("{{ 115 / 2051 }} {{ 41 / 2067 }} {{ -115 / 2051 }} {{ 41 / -2067 }}"),
            "0.0560702096538274 0.01983551040154814 -0.0560702096538274 -0.01983551040154814");
  EXPECT_EQ(render("{{ (2**126 + 1) / 3 }} {{ 1 / (2**126 + 1) }} {{ (2**55 + 1) / 1 }} "
                   "{{ (2**54 + 2**53 + 3) / (2**54 + 1) }} {{ 0 / (2**60) }} {{ 0 / -(2**60) }} "
                   "{{ (2**90 + 2**37 + 1) / 2**20 }} {{ (2**90 + 2**37) / 2**20 }}"),
            "2.8356863910078204e+37 1.1754943508222875e-38 3.602879701896397e+16 1.5 0.0 -0.0 "
            "1.1805916207174116e+21 1.1805916207174113e+21");
  EXPECT_EQ(render("{{ '1_e5' | float }} {{ '1_.5' | float }} {{ '1e1_0' | float }} {{ 0_0 }}"),
            "0.0 0.0 10000000000.0 0");
}

TEST(Jinja, EmptyTextsAreNotInPartsThatEndBeforeTheyBegin) {
  EXPECT_EQ(render("{{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'abc'.rfind('', 2, 1) }} "
                   "{{ 'abc'.count('', 3) }} {{ 'abc'.count('', 4) }} "
                   "{{ 'abc'.startswith('', 4) }} {{ 'abc'.endswith(('', 'x'), 4) }} "
                   "{{ 'abc'.find('', -1) }}"),
            "3 -1 -1 1 0 False False 2");
}

TEST(Jinja, CasesAreAsInPython) {
  EXPECT_EQ(render("{{ '\u01c4'.istitle() }} {{ '\u01c5a B'.istitle() }} {{ 'A1b'.istitle() }} "
                   "{{ 'A1B c'.istitle() }} {{ '1'.istitle() }} {{ '\u01c5aB'.swapcase() }}"),
            "True True False False False \u01c5Ab");
}

TEST(Jinja, SortedElementsMayBeEqualWithoutAnOrder) {
  EXPECT_EQ(render("{{ [none, none] | sort }} {{ [{'a': 1}, {'a': 1}] | sort | length }}"),
            "[None, None] 2");
  EXPECT_EQ(render("{{ [2, 10, 1] | sort }} {{ ['b', 'A'] | sort }}"), "[1, 2, 10] ['A', 'b']");
}

TEST(Jinja, KeysAndItemsCompareAsSets) {
  EXPECT_EQ(render("{{ {'a': 1}.keys() == {'a': 2}.keys() }} {{ {'a': 1}.items() == "
                   "{'a': 2}.items() }} {{ {'a': 1, 'b': 2}.items() == {'b': 2, 'a': 1}.items() }} "
                   "{{ {'a': 1}.values() == {'a': 1}.values() }}"),
            "True False True False");
  EXPECT_EQ(render("{% set d = {'__type__': 1} %}{{ d.__type__ }}{{ d.__class__ }}"), "1");
}

TEST(Jinja, EntitiesBecomeCharacters) {
  EXPECT_EQ(render("{{ '<b>a</b>&nbsp; &#60;&#x3E;&amp;lt; &#0;&#x110000;&x;&' | striptags }}"),
            "a\u00a0 <>&lt; \ufffd\ufffd&x;&");
}

TEST(Jinja, WordWrapBreaksAtHyphensUnlessDisabled) {
  EXPECT_EQ(render("{{ 'abcd-0123456789' | wordwrap(8) }}"), "abcd-\n01234567\n89");
  EXPECT_EQ(render("{{ '              x' | wordwrap(5) }}"), "    x");
  EXPECT_EQ(render("{{ '          x' | wordwrap(5) }}{{ '   x y' | wordwrap(3) }}"), "xx y");
  EXPECT_EQ(render("{{ 'a well-known thing' | wordwrap(8) }}"), "a well-\nknown\nthing");
  EXPECT_EQ(render("{{ 'a well-known thing' | wordwrap(8, break_on_hyphens=false) }}"),
            "a well-k\nnown\nthing");
  EXPECT_EQ(render("{{ 'one-two-three four' | wordwrap(5, false, none, false) }}"),
            "one-two-three\nfour");
  EXPECT_EQ(render("{{ 'ab--cd e--' | wordwrap(4, false) }} {{ 'ab--cd' | wordwrap(5) }}"),
            "ab--\ncd\ne-- ab--\ncd");
  EXPECT_EQ(render("{{ 'e-mail x-y-z' | wordwrap(3, wrapstring='|') }}"), "e-|mai|l x|-y-|z");
  EXPECT_EQ(render("{{ '    -------- x' | wordwrap(2, wrapstring='|') }}"), "  |--|--|--|--|x");
  EXPECT_EQ(render("{{ '    abcdefgh' | wordwrap(4, wrapstring='|') }}"), "    |abcd|efgh");
  EXPECT_EQ(render("{{ 'ab   cdefgh' | wordwrap(5, wrapstring='|') }}"), "ab   |cdefg|h");
  EXPECT_EQ(render("{{ 'q-w-e-r' | wordwrap(1, false, wrapstring='|') }}"), "q-w-|e-r");
}

TEST(Jinja, TheCallerSetsTheClock) {
  RenderOptions options;
  options.now.tm_year = 125;
  options.now.tm_mon = 2;
  options.now.tm_mday = 4;
  EXPECT_EQ(testing::render_all("{{ strftime_now('%d %b %Y') }}", "{}", options).text,
            "04 Mar 2025");
}

TEST(Jinja, DatesAreFormattedAsInPython) {
  RenderOptions options;
  options.now.tm_year = 126;
  options.now.tm_mon = 6;
  options.now.tm_mday = 6;
  options.now.tm_hour = 5;
  options.now.tm_min = 4;
  options.now.tm_sec = 9;
  options.now.tm_wday = 1;
  const auto shown = [&](std::string_view format) {
    return testing::render_all(fmt::format("{{{{ strftime_now('{}') }}}}", format), "{}", options)
        .text;
  };
  EXPECT_EQ(shown("%l:%M %P|%k|%_d|%-d|%^b|%#p|%3d|%10B"),
            " 5:04 am| 5| 6|6|JUL|am|006|      July");
  EXPECT_EQ(shown("%Ex|%OH|%f|%z%Z|%#Z|%3Z|%%|%Q|%"), "07/06/26|05|000000|||   |%|%Q|%");
  EXPECT_EQ(shown(""), "");
  EXPECT_ERROR_SAYS(shown("%9999999d"), ExitCode::usage, "a format asks for more than 1048576");
}

TEST(Jinja, GenerationBlocksAreReportedInCharacters) {
  const Rendered r = testing::render_all("é{% generation %}bc{% endgeneration %}d");
  EXPECT_EQ(r.text, "ébcd");
  EXPECT_EQ(r.generated, (std::vector<GeneratedSpan>{{{1, 3}}}));
}

TEST(Jinja, GenerationBlocksHaveTheElementOfTheirLoop) {
  const Template t = Template::parse(
      "{% for m in (all | reverse) %}{% for part in m %}"
      "{% generation %}{{ part }}{% endgeneration %}{% endfor %}{% endfor %}"
      "{% generation %}c{% endgeneration %}",
      "t.jinja");
  // Two lists that are equal are two elements.
  const auto list = [] { return TemplateValue::list({given("a"), given("b")}); };
  const std::vector<TemplateValue> elements = {list(), list()};
  const Rendered r = t.render({{"all", TemplateValue::list({elements.begin(), elements.end()})}},
                              {.elements = elements});
  EXPECT_EQ(r.text, "ababc");
  EXPECT_EQ(r.generated, (std::vector<GeneratedSpan>{
                             {{0, 1}, 1}, {{1, 2}, 1}, {{2, 3}, 0}, {{3, 4}, 0}, {{4, 5}}}));
}

}  // namespace
}  // namespace lamina::jinja
