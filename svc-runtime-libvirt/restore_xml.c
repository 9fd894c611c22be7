#include "svc-runtime-libvirt/restore_xml.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <string.h>

enum { SCALAR_MAX = 128 }; /* bytes */

/* Devices of which a definition of ours has at most one, and which have an address. */
static const char *const single_devices[] = { "memballoon", "rng", "watchdog", "panic", "iommu" };

static void drop_all(xmlNode *parent, const char *name)
{
	for (xmlNode *node = xml_child(parent, name); node; node = xml_child(parent, name)) {
		xmlUnlinkNode(node);
		xmlFreeNode(node);
	}
}

/* Enough for every word and number that libvirt writes there. */
static const char WORD_BYTES[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:+-_\t\n";

static bool is_word(const xmlNode *text)
{
	const char *s = (const char *)text->content;

	return !s || (strlen(s) <= SCALAR_MAX && strspn(s, WORD_BYTES) == strlen(s));
}

/* What is taken over as a whole says words and numbers: nothing in it can be a path. */
static bool names_no_path(const xmlNode *element)
{
	for (const xmlAttr *a = element->properties; a; a = a->next)
		for (const xmlNode *text = a->children; text; text = text->next)
			if (!is_word(text))
				return false;
	for (const xmlNode *node = element->children; node; node = node->next)
		if (node->type == XML_ELEMENT_NODE ? !names_no_path(node) : !is_word(node))
			return false;
	return true;
}

/* Every child of that name, replaced by saved's. */
static int take_over(xmlNode *to, const xmlNode *from, const char *name, struct err *err)
{
	drop_all(to, name);
	for (xmlNode *node = xml_child(from, name); node; node = xml_next(node, name)) {
		if (!names_no_path(node))
			return err_set(err, -EINVAL, "the snapshot's '%s' is none that we write", name);
		xmlNode *copy = xmlDocCopyNode(node, to->doc, 1);
		if (!copy || !xmlAddChild(to, copy)) {
			xmlFreeNode(copy);
			return -ENOMEM;
		}
	}
	return 0;
}

static int take_address(xmlNode *to, const xmlNode *from, struct err *err)
{
	return to && from ? take_over(to, from, "address", err) : 0;
}

static size_t count(const xmlNode *parent, const char *name)
{
	size_t n = 0;

	for (const xmlNode *node = xml_child(parent, name); node; node = xml_next(node, name))
		n++;
	return n;
}

static xmlNode *disk_of_target(const xmlNode *devices, const char *target)
{
	xmlNode *disk = xml_child(devices, "disk");

	while (disk && !xml_attr_is(xml_child(disk, "target"), "dev", target))
		disk = xml_next(disk, "disk");
	return disk;
}

static int graft_disks(xmlNode *wanted, const xmlNode *saved, struct err *err)
{
	int r = 0;

	if (count(wanted, "disk") != count(saved, "disk"))
		return err_set(err, -EBUSY, "the snapshot's guest had %zu disks, the instance has %zu",
		        count(saved, "disk"), count(wanted, "disk"));
	for (xmlNode *disk = xml_child(wanted, "disk"); r == 0 && disk; disk = xml_next(disk, "disk")) {
		char target[16];
		if (xml_attr(xml_child(disk, "target"), "dev", target, sizeof(target)) < 0)
			return -EINVAL;
		const xmlNode *other = disk_of_target(saved, target);
		if (!other)
			return err_set(err, -EBUSY, "the snapshot's guest had no disk '%s'", target);
		r = take_address(disk, other, err);
	}
	return r;
}

static int graft_nics(xmlNode *wanted, const xmlNode *saved, struct err *err)
{
	const xmlNode *other = xml_child(saved, "interface");
	int r = 0;

	if (count(wanted, "interface") != count(saved, "interface"))
		return err_set(err, -EBUSY, "the snapshot's guest had %zu NICs, the instance has %zu",
		        count(saved, "interface"), count(wanted, "interface"));
	for (xmlNode *nic = xml_child(wanted, "interface"); r == 0 && nic; nic = xml_next(nic, "interface")) {
		r = take_address(nic, other, err);
		other = xml_next(other, "interface");
	}
	return r;
}

static int graft_devices(xmlNode *wanted, const xmlNode *saved, struct err *err)
{
	if (xml_child(saved, "hostdev"))
		return err_set(err, -EBUSY, "the snapshot's guest had devices of its host passed through");
	int r = graft_disks(wanted, saved, err);
	if (r == 0)
		r = graft_nics(wanted, saved, err);
	if (r == 0)
		r = take_over(wanted, saved, "controller", err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(single_devices); i++)
		r = take_address(
		        xml_child(wanted, single_devices[i]), xml_child(saved, single_devices[i]), err);
	return r;
}

/* "pc-q35-7.2": the version that the guest was started on, not the newest of that name. */
static int graft_machine(xmlNode *wanted, const xmlNode *saved, struct err *err)
{
	char machine[64], type[16];

	if (xml_attr(xml_at(saved, "os/type"), "machine", machine, sizeof(machine)) < 0 || !machine[0] ||
	        strspn(machine, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != strlen(machine))
		return err_set(err, -EINVAL, "the snapshot's definition has no machine that can be");
	if (!xmlSetProp(xml_at(wanted, "os/type"), (const xmlChar *)"machine", (const xmlChar *)machine))
		return -ENOMEM;
	if (xml_attr(wanted, "type", type, sizeof(type)) < 0 || !xml_attr_is(saved, "type", type))
		return err_set(err, -EBUSY,
		        "the snapshot's memory is from a guest of another accelerator; guests here run as '%s'",
		        type);
	return 0;
}

static int graft(xmlNode *wanted, const xmlNode *saved, struct err *err)
{
	static const char *const whole[] = { "cpu", "features", "clock", "currentMemory" };
	xmlNode *devices = xml_child(wanted, "devices");
	int r = graft_machine(wanted, saved, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(whole); i++)
		r = take_over(wanted, saved, whole[i], err);
	if (r == 0)
		r = graft_devices(devices, xml_child(saved, "devices"), err);
	return r;
}

int restore_xml_write(const char *wanted, const char *saved, char **ret, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *to = NULL;
	CLEANUP_XML_DOC xmlDoc *from = NULL;
	int r = xml_parse(wanted, strlen(wanted), &to, err);

	if (r == 0)
		r = xml_parse(saved, strlen(saved), &from, err);
	if (r < 0)
		return r;
	const xmlNode *root = xmlDocGetRootElement(from);
	if (!root || strcmp((const char *)root->name, "domain") != 0)
		return err_set(err, -EINVAL, "what lies beside the snapshot's memory is not a domain");
	r = graft(xmlDocGetRootElement(to), root, err);
	return r < 0 ? r : xml_document_text(to, ret);
}
