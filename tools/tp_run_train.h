// tp-run train: the training loop on the command line.
#ifndef TP_TOOLS_TP_RUN_TRAIN_H_
#define TP_TOOLS_TP_RUN_TRAIN_H_

namespace tp {

// argv[0] is "train". Returns the exit code.
int TrainMain(int argc, char** argv);

}  // namespace tp

#endif  // TP_TOOLS_TP_RUN_TRAIN_H_
