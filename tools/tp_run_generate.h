// tp-run generate: text generation on the command line.
#ifndef TP_TOOLS_TP_RUN_GENERATE_H_
#define TP_TOOLS_TP_RUN_GENERATE_H_

namespace tp {

// argv[0] is "generate". Returns the exit code.
int GenerateMain(int argc, char** argv);

}  // namespace tp

#endif  // TP_TOOLS_TP_RUN_GENERATE_H_
