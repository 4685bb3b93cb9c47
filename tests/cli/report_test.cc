// lamina report: one page with the data of the runs, without external content.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/report/report_page.h"
#include "cli/report_run.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "support/expect_error.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string written_page(std::vector<std::string> more = {}) {
  const TempDir folder;
  std::vector<std::string> words{"report", trained_run(), "--output", folder / "page.html"};
  words.insert(words.end(), more.begin(), more.end());
  const Finished f = lamina_program(words);
  EXPECT_EQ(f.code, 0) << f.err;
  return folder.read("page.html");
}

// The page without the text of its scripts and styles.
std::string without_code(std::string page) {
  for (const std::string& tag : {std::string("script"), std::string("style")})
    for (std::size_t at = 0; (at = page.find("<" + tag, at)) != page.npos;) {
      const std::size_t begin = page.find('>', at) + 1, end = page.find("</" + tag, begin);
      page.erase(begin, end - begin);
      at = begin;
    }
  return page;
}

JsonDocument data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return JsonDocument::parse(page.substr(at, page.find("</script>", at) - at), "data");
}

// Every tag is closed, in order.
void expect_well_formed(const std::string& whole) {
  const std::string page = without_code(whole);
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, page.npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ(tag.substr(1), open.back());
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, HasEveryNumberOfTheMetrics) {
  const std::string page = written_page();
  expect_well_formed(page);
  const JsonDocument data = data_of(page);
  int numbers = 0;
  for (const JsonValue curve : data.root().at("curves").elements()) {
    const JsonValue grid =
        data.root().at("grids").element(static_cast<std::size_t>(curve.at("grid").as_int64()));
    EXPECT_EQ(grid.at("per").as_int64(), 1);
    for (const JsonValue value : curve.at("values").elements()) {
      EXPECT_TRUE(value.is_number());
      ++numbers;
    }
  }
  std::ifstream metrics(trained_run() + "/metrics.jsonl");
  int expected = 0;
  for (std::string line; std::getline(metrics, line);) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    for (const auto& [key, value] : json.root().members()) expected += key != "step";
  }
  EXPECT_GT(numbers, 20);
  EXPECT_EQ(numbers, expected);
}

TEST(Report, ValuesMatchTheirSteps) {
  const TempDir folder;
  const std::string run =
      run_of(folder, "a",
             loss_line(2, 4.25) + loss_line(4, 3.5) + "{\"step\":5,\"eval/loss\":null}\n" +
                 loss_line(6, 1e-7) + "{\"step\":7,\"x\":3}\n");
  ASSERT_EQ(lamina_program({"report", run}).code, 0);
  const JsonDocument data = data_of(folder.read("a/report.html"));
  ASSERT_EQ(data.root().at("curves").size(), 2U);
  const JsonValue loss = data.root().at("curves").element(0);
  EXPECT_EQ(loss.at("name").as_string(), "train/loss");
  std::vector<double> values;
  for (const JsonValue value : loss.at("values").elements()) values.push_back(value.as_double());
  EXPECT_EQ(values, (std::vector<double>{4.25, 3.5, 1e-7}));
  const JsonValue grid = data.root().at("grids").element(0);
  EXPECT_EQ(grid.at("first").as_double(), 2);
  EXPECT_EQ(grid.at("by").as_double(), 2);
  EXPECT_EQ(grid.at("count").as_int64(), 3);
}

TEST(Report, ALongRunIsAPageOfThreeHundredKilobytes) {
  const TempDir folder;
  std::string lines, log;
  for (int step = 1; step <= 20000; ++step) {
    lines += fmt::format("{{\"step\":{}", step);
    for (int metric = 0; metric < 12; ++metric)
      lines += fmt::format(",\"train/m{}\":{:.9f}", metric, 1 + std::sin(step * 0.1 + metric));
    lines += "}\n";
    log += fmt::format("step {}/20000  loss 4.3962  ema 5.0259  gnorm 1.86\n", step);
  }
  const std::string run = run_of(folder, "long", lines);
  folder.write("long/log.txt", log);
  ASSERT_EQ(lamina_program({"report", run}).code, 0);
  const std::string page = folder.read("long/report.html");
  EXPECT_LT(page.size(), 300000U);
  EXPECT_THAT(page, HasSubstr("step 1/20000"));
  EXPECT_THAT(page, HasSubstr("step 20000/20000"));
  EXPECT_THAT(page, HasSubstr(" lines are omitted here; log.txt has them]"));
  const JsonDocument data = data_of(page);
  for (const JsonValue curve : data.root().at("curves").elements())
    EXPECT_GT(curve.at("values").size(), 500U);
}

TEST(Report, LongCurvesAreMeansThatEndAtTheirSteps) {
  ReportCurve curve{"x", {}};
  for (int i = 1; i <= 100; ++i) curve.points.push_back({i * 1.0, i * 1.0});
  const std::vector<ReportCurve> curves{curve};
  const JsonDocument data = JsonDocument::parse(curves_json({"run"}, {&curves}, 0), "data");
  const JsonValue grid = data.root().at("grids").element(0);
  EXPECT_EQ(grid.at("per").as_int64(), 3);
  EXPECT_EQ(data.root().at("curves").element(0).at("values").element(0).as_double(), 2);
  EXPECT_EQ(data.root().at("curves").element(0).at("values").size(), 34U);
  // The last mean covers one point, so the steps are not regular.
  EXPECT_EQ(grid.at("steps").element(0).as_double(), 3);
  EXPECT_EQ(grid.at("steps").element(33).as_double(), 100);
}

TEST(Report, ReadsNothingFromOutside) {
  const std::string page = written_page();
  const std::string visible = without_code(page);
  for (const char* reference :
       {"src=", "href=", "url(", "@import", "<link", "<img", "onload", "onclick"})
    EXPECT_THAT(visible, Not(HasSubstr(reference)));
  EXPECT_THAT(page, HasSubstr("\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                              "'unsafe-inline'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("sourceMappingURL")));
  EXPECT_THAT(visible, HasSubstr("sequence_length = 32"));
}

TEST(Report, ThePolicyAllowsItsScripts) {
  if (lamina::testing::run_shell("command -v openssl").code != 0)
    GTEST_SKIP() << "no openssl to compute checksums with";
  const TempDir folder;
  const std::string page = written_page();
  int scripts = 0;
  for (std::size_t at = 0; (at = page.find("<script>", at)) != page.npos; ++scripts) {
    at += 8;
    const std::string file =
        folder.write("script.js", page.substr(at, page.find("</script>", at) - at));
    const std::string hash =
        lamina::testing::run_shell("openssl dgst -sha256 -binary " + file + " | openssl base64 -A")
            .out;
    EXPECT_THAT(page, HasSubstr("'sha256-" + hash + "'"));
  }
  EXPECT_EQ(scripts, 2);
}

TEST(Report, HasTheLicenceOfItsLibrary) {
  const std::string page = written_page();
  EXPECT_THAT(page, HasSubstr("dygraphs is MIT-licenced"));
  EXPECT_THAT(page, HasSubstr("Permission is hereby granted, free of charge"));
}

TEST(Report, NamesTheRunInItsTitle) {
  const TempDir folder;
  const std::string run = run_of(folder, "my run", loss_line(1, 2));
  const Finished f = lamina_program({"report", run});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out, run + "/report.html\n");
  const std::string page = folder.read("my run/report.html");
  EXPECT_THAT(page, HasSubstr("<title>my run - lamina</title>"));
  EXPECT_THAT(page, HasSubstr("<h1>my run</h1>"));
}

TEST(Report, ShowsSeveralRunsInOnePage) {
  const TempDir folder;
  const std::string a = run_of(folder, "a", loss_line(1, 4) + loss_line(2, 3));
  const std::string b = run_of(folder, "b", loss_line(1, 5));
  folder.write("a/config.toml",
               "family = \"x\"   # the plugin\n[train]\nsteps = 2   # a.toml:1\n"
               "lr = 1.0        # default\n");
  folder.write("b/config.toml",
               "family = \"x\"   # the plugin\n[train]\nsteps = 1   # b.toml:7\n"
               "lr = 1.0        # b.toml:9\n");
  const Finished f = lamina_program({"report", a, b, "-o", folder / "both.html"});
  ASSERT_EQ(f.code, 0) << f.err;
  const std::string page = folder.read("both.html");
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("<h1>a, b</h1>"));
  const JsonDocument data = data_of(page);
  EXPECT_EQ(data.root().at("runs").size(), 2U);
  ASSERT_EQ(data.root().at("curves").size(), 2U);
  EXPECT_EQ(data.root().at("curves").element(1).at("run").as_int64(), 1);
  EXPECT_THAT(page,
              HasSubstr("<tr><th>last train/loss</th><td>3 (step 2)</td><td>5 (step 1)</td>"));
  EXPECT_THAT(page, HasSubstr("<h2>Settings that differ</h2>"));
  EXPECT_THAT(page, HasSubstr("<tr><th>train.steps</th><td>2</td><td>1</td></tr>"));
  EXPECT_THAT(page, Not(HasSubstr("<tr><th>train.lr</th>")));
}

TEST(Report, SeveralRunsNeedAName) {
  const TempDir folder;
  const std::string a = run_of(folder, "a", loss_line(1, 4)), b = run_of(folder, "b", "");
  EXPECT_THAT(lamina_program({"report", a, b}).err,
              HasSubstr("report: got 2 runs; expected the name of the page as well\n"
                        "  add -o FILE.html"));
  const Finished twice = lamina_program({"report", a, a + "/", "-o", folder / "p.html"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("got the run '" + a + "/' twice"));
}

TEST(Report, RunsOfOneNameAreDistinguishedByTheirPaths) {
  const TempDir folder;
  const std::string a = run_of(folder, "a/run", loss_line(1, 4)),
                    b = run_of(folder, "b/run", loss_line(1, 4));
  ASSERT_EQ(lamina_program({"report", a, b, "-o", folder / "p.html"}).code, 0);
  EXPECT_THAT(folder.read("p.html"), HasSubstr("<h1>" + a + ", " + b + "</h1>"));
}

TEST(Report, EscapesTextOfRuns) {
  const TempDir folder;
  const std::string name = "</script><b>\xe2\x80\xa8&\"";
  const std::string run =
      run_of(folder, "<i>run",
             "{\"step\":1,\"train/loss\":2,\"</script><b>\\u2028&\\\"\":1}\n"
             "{\"step\":1,\"samples\":[{\"prompt\":\"<u>\",\"text\":\"</pre>\"}]}\n");
  folder.write("<i>run/log.txt", "</pre><script>alert(1)</script>\x1b[1m\n");
  ASSERT_EQ(lamina_program({"report", run}).code, 0);
  const std::string page = folder.read("<i>run/report.html");
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("<title>&lt;i&gt;run - lamina</title>"));
  EXPECT_THAT(page, HasSubstr("<b>&lt;u&gt;</b>&lt;/pre&gt;</pre>"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; [1m"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e\\u003cb\\u003e\\u2028\\u0026\\\""));
  bool found = false;
  const JsonDocument data = data_of(page);
  for (const JsonValue curve : data.root().at("curves").elements())
    found |= curve.at("name").as_string() == name;
  EXPECT_TRUE(found) << "the name reads back as it was";
}

TEST(Report, ShowsSamples) {
  const std::string page = written_page({"-p", "a <b> & c"});
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("<b>a &lt;b&gt; &amp; c</b>"));
}

TEST(Report, SamplesEqualTheOutputOfDecode) {
  const Finished f =
      lamina_program({"decode", "-m", trained_run(), "-p", "the", "--temp", "0", "-n", "64"});
  ASSERT_EQ(f.code, 0) << f.err;
  ASSERT_GT(f.out.size(), 16U);
  std::string text;  // HTML
  for (const char c : f.out) {
    const auto byte = static_cast<unsigned char>(c);
    text += c == '&'                                               ? "&amp;"
            : c == '<'                                             ? "&lt;"
            : c == '>'                                             ? "&gt;"
            : c == '"'                                             ? "&quot;"
            : (byte < 32 && c != '\n' && c != '\t') || byte == 127 ? " "
                                                                   : std::string(1, c);
  }
  EXPECT_THAT(written_page({"-p", "the"}), HasSubstr("<b>the</b>" + text + "</pre>"));
}

TEST(Report, ReportsTheUsedPartOfTheMachine) {
  EXPECT_THAT(written_page({"--threads", "1"}), HasSubstr("1 thread, "));
}

TEST(Report, SamplesFitThePositionsOfTheModel) {
  const Finished f = lamina_program({"report", trained_run(), "-p", std::string(64, 'a')});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("--prompt: a prompt has 65 tokens; the maximum of the model is 64"));
}

TEST(Report, SamplesNeedATokenizer) {
  const TempDir folder;
  fs::copy(LAMINA_SOURCE_DIR "/tests/golden/hf/llama3_gqa", folder / "model");
  folder.write("model/metrics.jsonl", "{\"step\":1,\"train/loss\":2.5}\n");
  const Finished f = lamina_program({"report", folder / "model", "-p", "a"});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("has no tokenizer, so it cannot read text; remove --prompt"));
}

TEST(Report, CoversARun) {
  const TempDir folder;
  const Finished f = lamina_program({"report", folder.path()});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("has no metrics.jsonl; expected a run directory"));
}

TEST(Report, AReadErrorIsAnErrorAndNotAShorterPage) {
  const TempDir folder;
  const std::string run = run_of(folder, "a", loss_line(1, 4) + loss_line(2, 3));
  fs::create_directory(run + "/log.txt");  // as a file that cannot be read
  Finished f = lamina_program({"report", run});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("log.txt: is a directory; expected a file"));
  EXPECT_FALSE(fs::exists(run + "/report.html"));
  fs::remove(run + "/log.txt");
  fs::rename(run + "/metrics.jsonl", run + "/lines");
  fs::create_directory(run + "/metrics.jsonl");
  f = lamina_program({"report", run});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("metrics.jsonl: is a directory; expected a file"));
}

TEST(Report, CutMetricsAreAnError) {
  const TempDir folder;
  const std::string lines = loss_line(1, 4) + loss_line(2, 3);
  const std::string run = run_of(folder, "a", lines.substr(0, lines.size() - 5));
  const Finished f = lamina_program({"report", run});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("metrics.jsonl: line 2: is cut off after 21 bytes; expected a whole "
                               "JSON object"));
  EXPECT_FALSE(fs::exists(run + "/report.html"));
}

TEST(Report, MetricsThatEndBeforeTheCheckpointsAreAWarning) {
  const TempDir folder;
  fs::copy(trained_run(), folder / "run", fs::copy_options::recursive);
  const std::string lines = folder.read("run/metrics.jsonl");
  folder.write("run/metrics.jsonl", lines.substr(0, lines.find('\n') + 1));
  const Finished f = lamina_program({"report", folder / "run"});
  EXPECT_EQ(f.code, 0);
  EXPECT_THAT(f.err, HasSubstr("metrics.jsonl ends at step 1, but there is a checkpoint of step 4; "
                               "the curves lack the steps between"));
}

}  // namespace
}  // namespace lamina::cli
