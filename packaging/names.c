/* Linked into the static programs of a release. Host names are looked up in /etc/hosts and at the name servers of /etc/resolv.conf,
 * by the code of glibc that is in the program, whatever /etc/nsswitch.conf says: what else it may name is a shared library of the
 * machine's own glibc, which a static program must not load: linked with glibc 2.36, without this, it ends with SIGFPE where glibc is 2.41
 * and nsswitch.conf names myhostname. */
#include <nss.h>

__attribute__((constructor)) static void names(void)
{
    __nss_configure_lookup("hosts", "files dns");
}
