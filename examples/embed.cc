// A program that uses the host as a library: it decodes and trains without lamina's command line.
//
//   embed decode MODEL_DIR "In the beginning"
//   embed train RUN.toml
#include <cstdio>
#include <string>

#include "decode/generate.h"
#include "device/device.h"
#include "model/load.h"
#include "train/loop/run.h"

using namespace lamina;

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "embed decode DIR TEXT | embed train RUN.toml\n"), 2;
  const Backend& backend = device::open("auto").backend();
  const auto plugins =
      registry::Catalog::scan(registry::search_path({}, registry::SearchEnvironment::of_process()));
  try {
    if (argv[1] == std::string("train")) {
      const config::RunConfig config = config::load_run(argv[2]);
      const decoder::Model model = model::make(config.model, plugins);
      train::Run run(config, model, "none", backend);
      run.start();
      std::printf("loss %.4f\n", run.loop().run({}).last_loss);
      return 0;
    }
    const model::Loaded m = model::load(argv[2], plugins, DType::f32, backend);
    decode::Session session(m.model(), m.weights.pointers(), {.capacity = 256}, backend);
    const auto out = decode::generate(session, m.tokenizer->encode(argc > 3 ? argv[3] : " "),
                                      m.tokenizer.get(), {.max_new_tokens = 32}, [](auto) {});
    std::printf("%s\n", out.text.c_str());
  } catch (const Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), static_cast<int>(error.code());
  }
}
