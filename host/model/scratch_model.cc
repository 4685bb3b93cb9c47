#include "model/scratch_model.h"

#include "io/hf_directory.h"
#include "io/weight_files.h"

namespace lamina::model {

void ScratchModel::write(const decoder::Model& model, const Values& values,
                         const std::string& from) const {
  io::copy_side_files(from, directory());
  const decoder::ParameterTable& parameters = model.parameters();
  std::vector<io::TensorSpec> specs;
  for (const decoder::Parameter& p : parameters.all())
    specs.push_back({p.name, DType::f32, p.desc.shape});
  io::write_weight_files(directory(), specs, [&](const io::TensorSpec& spec) {
    return std::as_bytes(values(parameters[parameters.find(spec.name)]));
  });
}

}  // namespace lamina::model
