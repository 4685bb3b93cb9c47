#include "inspect/verify/verify.h"

#include "inspect/verify/verifier.h"

namespace lamina::inspect {

VerifyReport verify_case(const std::string& directory, DType dtype,
                         const registry::Catalog& plugins, const Backend& backend) {
  return Verifier(directory, dtype, plugins, backend).run();
}

}  // namespace lamina::inspect
