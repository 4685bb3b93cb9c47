// What a kind of torture is: a function from a seed to a verdict. The driver (main.cc) gives every
// case a folder of its own and divides the time.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "torture/child.h"
#include "torture/random.h"

namespace lamina::torture {

// Where everything is; made once, only read by cases. [any thread]
struct Place {
  std::string program;     // bin/lamina
  std::string source;      // the checkout: seeds lie under tests/golden
  std::string plugins;     // the folder of *.lamina.so
  std::string prepared;    // what prepare() of tiny_run.h made
  double run_seconds = 1;  // that the unbroken run took
};

// One case: `folder` is empty and its own, `random` depends on the kind and the seed alone.
struct Case {
  const Place& place;
  std::string folder;
  Random random;
  bool tunes = false;  // its run starts from the weights of another (train.from)
};

// Something that must not be: ends the case.
class Failure : public std::exception {
 public:
  // `what` says what was done and what came of it; `detail` is shown below, eg stderr.
  Failure(std::string what, std::string detail)
      : what_(std::move(what)), detail_(std::move(detail)) {}
  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& detail() const { return detail_; }

 private:
  std::string what_, detail_;
};

// This machine cannot do that kind: the driver says so aloud and goes on with the next.
class Skipped : public std::exception {
 public:
  explicit Skipped(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

struct Kind {
  std::string name;
  std::string doc;         // one line, what is done and what must come of it
  double weight;           // share of the time, 1 being usual
  void (*attempt)(Case&);  // throws Failure or Skipped
};

// Every kind, in the order in which they run.
std::vector<Kind> all_kinds();

// By file: runs.cc, faults.cc, damage.cc, outputs.cc, mutate.cc, templates.cc.
std::vector<Kind> run_kinds();
std::vector<Kind> fault_kinds();
std::vector<Kind> damage_kinds();
std::vector<Kind> output_kinds();
std::vector<Kind> mutation_kinds();
std::vector<Kind> template_kinds();

}  // namespace lamina::torture
