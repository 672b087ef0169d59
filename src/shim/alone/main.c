/*
 * The shim as a program of its own, linked without the rest. Same code as under the applet's names; it is what
 * the warden lays over the shells of a harness room, and the whole binary carries it (image.c).
 *
 * Why alone: at every start a static-pie relocates itself, and the tables of OpenSSL and SQLite make that some
 * 120 pages to be copied before main() sees argv[0]. Why with musl: glibc asks the processor about itself at
 * every start, with some 40 CPUID instructions, and in a virtual machine each of them is a trap to the
 * hypervisor. A shim starts for every command, and of what glibc does so well it uses nothing. The numbers are
 * in docs/performance.md. Where there is no musl to build with, it is linked with glibc and only slower.
 */
int shim_main(int argc, char **argv);

int main(int argc, char **argv) {
    return shim_main(argc, argv);
}
