# SPDX-License-Identifier: MIT
# Probes of the compiler that configure.ac uses more than once.

# PCP_CHECK_CFLAG(FLAG, VARIABLE)
# Append FLAG to the shell variable VARIABLE when the C compiler takes it
# without complaint. -Werror is on for the probe, since clang merely warns about
# an unknown -W flag; gcc is silent about an unknown -Wno-X, so probe -WX.
AC_DEFUN([PCP_CHECK_CFLAG], [
	AS_VAR_PUSHDEF([cache], [pcp_cv_cflag_$1])
	AC_CACHE_CHECK([whether $CC takes $1], [cache], [
		pcp_saved_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS -Werror $1"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
			[AS_VAR_SET([cache], [yes])],
			[AS_VAR_SET([cache], [no])])
		CFLAGS=$pcp_saved_CFLAGS
	])
	AS_VAR_IF([cache], [yes], [$2="$$2 $1"])
	AS_VAR_POPDEF([cache])
])

# PCP_CHECK_LDFLAG(FLAG, VARIABLE)
# As PCP_CHECK_CFLAG, for a flag of the link step.
AC_DEFUN([PCP_CHECK_LDFLAG], [
	AS_VAR_PUSHDEF([cache], [pcp_cv_ldflag_$1])
	AC_CACHE_CHECK([whether the linker takes $1], [cache], [
		pcp_saved_LDFLAGS=$LDFLAGS
		LDFLAGS="$LDFLAGS $1"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
			[AS_VAR_SET([cache], [yes])],
			[AS_VAR_SET([cache], [no])])
		LDFLAGS=$pcp_saved_LDFLAGS
	])
	AS_VAR_IF([cache], [yes], [$2="$$2 $1"])
	AS_VAR_POPDEF([cache])
])

# PCP_REQUIRE_MODULE(PREFIX, MODULE, HEADER, DEBIAN-PACKAGE, WHAT-FOR)
# Find a library by pkg-config, or else by its header, and stop with the name of
# the package to install when it is not there.
AC_DEFUN([PCP_REQUIRE_MODULE], [
	PKG_CHECK_MODULES([$1], [$2], [pcp_have=yes], [pcp_have=no])
	AS_IF([test "$pcp_have" = yes], [
		pcp_saved_CPPFLAGS=$CPPFLAGS
		CPPFLAGS="$CPPFLAGS $$1_CFLAGS"
		AC_CHECK_HEADER([$3], [], [pcp_have=no])
		CPPFLAGS=$pcp_saved_CPPFLAGS
	])
	AS_IF([test "$pcp_have" != yes], [
		AC_MSG_ERROR([$2 is missing: pcpool needs it for $5.
On Debian:  apt-get install $4
Elsewhere:  install its development files so that '$PKG_CONFIG --exists "$2"'
succeeds, or set $1_CFLAGS and $1_LIBS.])
	])
])
