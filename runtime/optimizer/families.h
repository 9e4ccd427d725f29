// The optimizers; each is one file and one row in optimizer.cc.
#ifndef TP_RUNTIME_OPTIMIZER_FAMILIES_H_
#define TP_RUNTIME_OPTIMIZER_FAMILIES_H_

#include <memory>
#include <vector>

#include "runtime/optimizer/parameter_store.h"

namespace tp {

// `decay`: the weight decay of each parameter.
using OptimizerMaker = std::unique_ptr<Optimizer> (*)(
    const OptimizerOptions& options, ParameterStore store,
    std::vector<double> decay, std::vector<Communicator*> axes);

std::unique_ptr<Optimizer> MakeSgd(const OptimizerOptions& options,
                                   ParameterStore store,
                                   std::vector<double> decay,
                                   std::vector<Communicator*>);
std::unique_ptr<Optimizer> MakeAdamW(const OptimizerOptions& options,
                                     ParameterStore store,
                                     std::vector<double> decay,
                                     std::vector<Communicator*>);
std::unique_ptr<Optimizer> MakeAdafactor(const OptimizerOptions& options,
                                         ParameterStore store,
                                         std::vector<double> decay,
                                         std::vector<Communicator*> axes);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_FAMILIES_H_
