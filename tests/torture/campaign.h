// A kind of torture is a function from a seed to a verdict. The driver (main.cc) gives every case a
// separate folder and divides the time.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "torture/child.h"
#include "torture/random.h"

namespace lamina::torture {

// Paths, set once and only read by cases. [any thread]
struct Place {
  std::string program;     // bin/lamina
  std::string source;      // the checkout: seeds are under tests/golden
  std::string plugins;     // the folder of *.lamina.so
  std::string prepared;    // created by prepare() of tiny_run.h
  double run_seconds = 1;  // of the unbroken run
};

// One case: `folder` is empty and exclusive, `random` depends only on the kind and the seed.
struct Case {
  const Place& place;
  std::string folder;
  Random random;
  bool tunes = false;  // the run starts from the weights of another (train.from)
};

// A fault of the program: ends the case.
class Failure : public std::exception {
 public:
  // `what` describes the action and the result; `detail` is shown below, e.g. stderr.
  Failure(std::string what, std::string detail)
      : what_(std::move(what)), detail_(std::move(detail)) {}
  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& detail() const { return detail_; }

 private:
  std::string what_, detail_;
};

// This machine cannot run the kind: the driver reports it and continues with the next.
class Skipped : public std::exception {
 public:
  explicit Skipped(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

struct Kind {
  std::string name;
  std::string doc;         // one line: the action and the expected result
  double weight;           // share of the time, 1 being usual
  void (*attempt)(Case&);  // throws Failure or Skipped
};

// Every kind, in the order of execution.
std::vector<Kind> all_kinds();

// By file: runs.cc, faults.cc, damage.cc, outputs.cc, mutate.cc, templates.cc.
std::vector<Kind> run_kinds();
std::vector<Kind> fault_kinds();
std::vector<Kind> damage_kinds();
std::vector<Kind> output_kinds();
std::vector<Kind> mutation_kinds();
std::vector<Kind> template_kinds();

}  // namespace lamina::torture
