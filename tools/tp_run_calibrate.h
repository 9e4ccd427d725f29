// tp-run calibrate: measures this machine and writes a machine file.
#ifndef TP_TOOLS_TP_RUN_CALIBRATE_H_
#define TP_TOOLS_TP_RUN_CALIBRATE_H_

namespace tp {

// argv[0] is "calibrate". Returns the exit code.
int CalibrateMain(int argc, char** argv);

}  // namespace tp

#endif  // TP_TOOLS_TP_RUN_CALIBRATE_H_
