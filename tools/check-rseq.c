/* SPDX-License-Identifier: MIT */
/*
 * Verify the descriptors of restartable sections in ELF files; tools/check-rseq
 * compiles and runs it.
 *
 * A wrong descriptor shows only when a section is really aborted, and then as
 * a killed process. So every entry of __rseq_cs must have
 *   - version and flags 0;
 *   - a section of at least one byte, inside one executable ELF section;
 *   - an abort address in an executable ELF section, outside its own section,
 *     with the four bytes before it equal to the machine's signature.
 * Files: relocatable objects (the addresses are relocations there), shared
 * objects (relative relocations, or values in place), executables; x86-64 and
 * aarch64, whatever machine this runs on as long as it is little-endian.
 *
 * Exit status: 0 all fine, 1 something is wrong, 2 a file cannot be read.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's layout: version, flags, start, length, abort. */
#define DESCRIPTOR_SIZE 32
enum { AT_START = 8, AT_LENGTH = 16, AT_ABORT = 24 };

struct machine {
	Elf64_Half id;
	uint32_t absolute; /* relocation types */
	uint32_t relative;
	uint32_t signature;
};

static const struct machine machines[] = {
	{ EM_X86_64, R_X86_64_64, R_X86_64_RELATIVE, 0x53053053 },
	{ EM_AARCH64, R_AARCH64_ABS64, R_AARCH64_RELATIVE, 0xd428bc00 },
};

struct file {
	const char *name;
	unsigned char *data;
	size_t size;
	const struct machine *machine;
	Elf64_Ehdr head;
	Elf64_Shdr *sections;
	size_t nr_sections;
	unsigned int descriptors;
	unsigned int failures;
};

/* Where an address of a descriptor points. */
struct place {
	size_t section; /* index; 0: nowhere */
	uint64_t offset;
};

/* What a complaint is about. */
struct entry {
	struct file *file;
	size_t section;
	uint64_t offset;
};

static void complain(const struct entry *e, const char *what)
{
	printf("%s: descriptor at %#" PRIx64 ": %s\n", e->file->name, e->offset,
	       what);
	e->file->failures++;
}

static bool read_at(const struct file *file, uint64_t offset, void *out,
		    size_t size)
{
	if (offset > file->size || size > file->size - offset)
		return false;
	memcpy(out, file->data + offset, size);
	return true;
}

/* Of the contents of an ELF section. */
static bool read_section(const struct file *file, size_t index, uint64_t offset,
			 void *out, size_t size)
{
	const Elf64_Shdr *s = &file->sections[index];

	return s->sh_type != SHT_NOBITS && offset <= s->sh_size &&
	       size <= s->sh_size - offset &&
	       read_at(file, s->sh_offset + offset, out, size);
}

static bool named(const struct file *file, const Elf64_Shdr *s,
		  const char *name)
{
	char found[32] = "";

	return file->head.e_shstrndx < file->nr_sections &&
	       strlen(name) < sizeof(found) &&
	       read_section(file, file->head.e_shstrndx, s->sh_name, found,
			    strlen(name) + 1) &&
	       !strcmp(found, name);
}

static bool executable(const struct file *file, size_t index)
{
	return index && index < file->nr_sections &&
	       (file->sections[index].sh_flags & SHF_EXECINSTR);
}

/* The executable section an address of a linked file lies in. */
static struct place place_of(const struct file *file, uint64_t address)
{
	for (size_t i = 1; i < file->nr_sections; i++) {
		const Elf64_Shdr *s = &file->sections[i];

		if (executable(file, i) && address >= s->sh_addr &&
		    address - s->sh_addr < s->sh_size)
			return (struct place){ i, address - s->sh_addr };
	}
	return (struct place){ 0, address };
}

/* What a relocation makes of its field. */
static bool resolve(const struct file *file, const Elf64_Shdr *relocs,
		    const Elf64_Rela *rela, struct place *out)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
	Elf64_Sym sym;

	if (type == file->machine->relative) {
		*out = place_of(file, (uint64_t)rela->r_addend);
		return true;
	}
	if (type != file->machine->absolute ||
	    relocs->sh_link >= file->nr_sections ||
	    !read_section(file, relocs->sh_link,
			  ELF64_R_SYM(rela->r_info) * sizeof(sym), &sym,
			  sizeof(sym)))
		return false;
	if (file->head.e_type != ET_REL) {
		*out = place_of(file, sym.st_value + (uint64_t)rela->r_addend);
		return true;
	}
	*out = (struct place){ sym.st_shndx,
			       sym.st_value + (uint64_t)rela->r_addend };
	return true;
}

/* The place a field of a descriptor names, at offset in its section. False
 * when it has a relocation this program does not know. */
static bool find_place(const struct entry *e, uint64_t offset,
		       struct place *out)
{
	const struct file *file = e->file;
	bool linked = file->head.e_type != ET_REL;
	uint64_t where = offset, value = 0;
	Elf64_Rela rela;

	if (linked)
		where += file->sections[e->section].sh_addr;
	for (size_t i = 1; i < file->nr_sections; i++) {
		const Elf64_Shdr *s = &file->sections[i];

		if (s->sh_type != SHT_RELA ||
		    (!linked && s->sh_info != e->section))
			continue;
		for (uint64_t at = 0;
		     read_section(file, i, at, &rela, sizeof(rela));
		     at += sizeof(rela))
			if (rela.r_offset == where)
				return resolve(file, s, &rela, out);
	}
	if (!linked ||
	    !read_section(file, e->section, offset, &value, sizeof(value)))
		return false;
	*out = place_of(file, value);
	return true;
}

static void check_abort(const struct entry *e, struct place start,
			uint64_t length)
{
	struct file *file = e->file;
	struct place abort;
	uint32_t signature;

	if (!find_place(e, e->offset + AT_ABORT, &abort) ||
	    !executable(file, abort.section)) {
		complain(e, "the abort address is not in code");
		return;
	}
	if (abort.section == start.section && abort.offset >= start.offset &&
	    abort.offset - start.offset < length)
		complain(e, "the abort address is inside the section");
	if (abort.offset < sizeof(signature) ||
	    abort.offset >= file->sections[abort.section].sh_size ||
	    !read_section(file, abort.section, abort.offset - sizeof(signature),
			  &signature, sizeof(signature)))
		complain(e, "nothing stands before the abort address");
	else if (signature != file->machine->signature)
		complain(e, "no signature before the abort address");
}

static void check_descriptor(const struct entry *e)
{
	struct file *file = e->file;
	struct place start;
	uint64_t length = 0;
	uint32_t head[2];

	if (!read_section(file, e->section, e->offset, head, sizeof(head)) ||
	    !read_section(file, e->section, e->offset + AT_LENGTH, &length,
			  sizeof(length))) {
		complain(e, "is cut off");
		return;
	}
	if (head[0] || head[1])
		complain(e, "version or flags are not 0");
	if (!length)
		complain(e, "the section is empty");
	if (!find_place(e, e->offset + AT_START, &start) ||
	    !executable(file, start.section)) {
		complain(e, "the section is not in code");
		return;
	}
	if (start.offset > file->sections[start.section].sh_size ||
	    length > file->sections[start.section].sh_size - start.offset)
		complain(e, "the section does not end in code");
	check_abort(e, start, length);
}

static void check_sections(struct file *file)
{
	for (size_t i = 1; i < file->nr_sections; i++) {
		const Elf64_Shdr *s = &file->sections[i];
		struct entry e = { .file = file, .section = i };

		if (!named(file, s, "__rseq_cs"))
			continue;
		for (; e.offset < s->sh_size; e.offset += DESCRIPTOR_SIZE) {
			file->descriptors++;
			check_descriptor(&e);
		}
	}
}

static const char *parse(struct file *file)
{
	const Elf64_Ehdr *head = &file->head;

	if (!read_at(file, 0, &file->head, sizeof(file->head)) ||
	    memcmp(head->e_ident, ELFMAG, SELFMAG))
		return "is no ELF file";
	if (head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_ident[EI_DATA] != ELFDATA2LSB)
		return "is not a 64-bit little-endian file";
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].id == head->e_machine)
			file->machine = &machines[i];
	if (!file->machine)
		return "is for a machine without sections";
	if (head->e_shentsize != sizeof(Elf64_Shdr) || !head->e_shnum)
		return "has no section headers";
	file->nr_sections = head->e_shnum;
	file->sections = calloc(file->nr_sections, sizeof(Elf64_Shdr));
	if (!file->sections)
		return strerror(ENOMEM);
	if (!read_at(file, head->e_shoff, file->sections,
		     file->nr_sections * sizeof(Elf64_Shdr)))
		return "is cut off";
	return NULL;
}

static const char *load(struct file *file)
{
	FILE *f = fopen(file->name, "rb");
	size_t room = 0, n;

	if (!f)
		return strerror(errno);
	do {
		unsigned char *data;

		room += (size_t)1 << 20;
		data = realloc(file->data, room);
		if (!data) {
			fclose(f);
			return strerror(ENOMEM);
		}
		file->data = data;
		n = fread(file->data + file->size, 1, room - file->size, f);
		file->size += n;
	} while (file->size == room);
	n = (size_t)ferror(f);
	fclose(f);
	return n ? "cannot be read" : NULL;
}

static int check(const char *name)
{
	struct file file = { .name = name };
	const char *trouble = load(&file);

	if (!trouble)
		trouble = parse(&file);
	if (trouble) {
		printf("%s: %s\n", name, trouble);
		free(file.sections);
		free(file.data);
		return 2;
	}
	check_sections(&file);
	if (!file.descriptors) {
		printf("%s: no descriptor at all\n", name);
		file.failures++;
	}
	printf("%s: %u descriptors, %u wrong\n", name, file.descriptors,
	       file.failures);
	free(file.sections);
	free(file.data);
	return file.failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	int worst = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: check-rseq OBJECT...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int status = check(argv[i]);

		worst = status > worst ? status : worst;
	}
	return worst;
}
