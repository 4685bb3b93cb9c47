// A subcommand as data: one declaration feeds the parser, help, completion and error texts.
//
//   Command greet_command() {
//     return {.name = "greet",
//             .summary = "says hello",
//             .options = {{.key = {.name = "times", .type = Type::integer, .preset = Value(1),
//                                  .min = 1, .doc = "How often."},
//                          .short_name = 'n', .value = "N"}},
//             .positionals = {{.name = "NAME", .doc = "Whom to greet."}},
//             .examples = {"lamina greet Ada -n 3"},
//             .run = [](const Arguments& a, const device::Device&) { ...a.integer("times")...;
//             return 0;
//             }};
//   }
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/terminal.h"
#include "config/key.h"
#include "device/device.h"

namespace lamina::cli {

using device::Device;

using config::Key;
using config::Type;
using config::Value;

struct Option {
  Key key;  // the long name without dashes; type boolean: a flag without a value
  char short_name = 0;
  std::string value = {};   // the name of the value in help: "N", "DIR"
  bool repeatable = false;  // may be given several times
  bool negatable = false;   // a flag that --no-<name> turns off
};

struct Positional {
  std::string name;  // the name in help: "RUN.toml"
  std::string doc;
  bool required = true;
  bool repeatable = false;  // allowed for the last one only
};

// Global options, available to every command.
struct Globals {
  bool quiet = false;
  int verbosity = 0;
  ColorMode color = ColorMode::automatic;
  std::optional<int> threads;               // absent: all that the machine allows
  std::vector<std::string> plugins;         // --plugin FILE
  std::vector<std::string> plugin_folders;  // --plugin-path DIR:DIR
};

// The checked values of one command line.
class Arguments {
 public:
  Globals globals;
  std::vector<std::string> positionals;

  // True if the option is on the command line, even with its default value.
  bool has(std::string_view name) const { return values_.contains(std::string(name)); }

  // The option's value or default. REQUIRES: declared with that type, and on the command line or
  // with a default.
  bool flag(std::string_view name) const;  // a flag without a default is false
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  // Every value of a repeatable option, in order; empty if there is none.
  std::vector<std::string> texts(std::string_view name) const;

 private:
  friend class CommandLine;
  const Value& value(std::string_view name) const;
  std::map<std::string, std::vector<Value>, std::less<>> values_;
  std::map<std::string, Value, std::less<>> presets_;
};

// Thrown by a command before it reads weights or its input, if its device has too little memory.
// With --device auto the command then runs again, on the CPU.
class DeviceTooSmall : public UserError {
 public:
  using UserError::UserError;
};

struct Command {
  std::string name;          // "train", or with its group: "config show"
  std::string summary;       // one line without a full stop
  std::string details = {};  // further paragraphs of its help page
  std::vector<Option> options = {};
  std::vector<Positional> positionals = {};
  std::vector<std::string> examples = {};  // whole command lines
  std::function<int(const Arguments&, const device::Device&)> run = {};
  bool takes_several_devices = false;    // --device cuda:0,1; `run` is given the first one
  bool takes_described_devices = false;  // --device cuda:h200, known only by its data sheet
};

// Throws UserError (exit 2) for a described GPU.
void require_computing(const Device& device);

// Options shared by several commands.
Option json_option();
Option raw_option();  // see print_model_text()
// --dtype float32|bfloat16, the compute type. Without a preset `doc` describes the default.
Option dtype_option(std::optional<std::string> preset = "bfloat16",
                    std::string doc = "Type to compute in.");
Option set_option();             // --set KEY=VALUE, repeatable
Option set_model_option();       // likewise, for commands without run files
Option required_model_option();  // -m DIR
Option model_option();           // likewise, optional
Option adapter_option();
// --device auto|cpu|cuda[:N]; the command is given that device.
Option device_option();
std::string adapter_path(const Arguments& a);  // what it names; empty without it

// Options by type; `short_name` 0 for none.
Option text_option(std::string name, char short_name, std::string value, std::string doc);
// negatable: adds --no-NAME.
Option flag_option(std::string name, std::string doc, bool negatable = false);
Option integer_option(std::string name, char short_name, std::optional<std::int64_t> preset,
                      std::string doc, double min, std::optional<double> max = {});
Option number_option(std::string name, double preset, std::string doc, double min,
                     std::optional<double> max = {});
Option choice_option(std::string name, std::string value, std::vector<std::string> choices,
                     std::optional<std::string> preset, std::string doc);

}  // namespace lamina::cli
