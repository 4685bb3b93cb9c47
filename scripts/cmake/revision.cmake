# cmake -DSOURCE=dir -DOUTPUT=file -P revision.cmake: writes the git revision as a C macro. The file
# is touched only when its text changes, so that an unchanged revision rebuilds nothing.
cmake_minimum_required(VERSION 3.24)
execute_process(COMMAND git describe --always --abbrev=10 --dirty=+ --exclude=*
                WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define LAMINA_REVISION \"@revision@\"\n" @ONLY)
